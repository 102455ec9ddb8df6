{# Columns of a product that are pairs of a row and an expert, each group of them of one expert, as `experts/route.wgsl`
   lists them. A workgroup takes one of `cuts` pieces of a group. A pair's number is row * used + which of the row's. #}
var<private> group_end: u32;
var<private> group_expert: u32;

// Expert, first column and end of a workgroup's piece; there is none unless the first is below the end.
fn piece(y: u32) -> vec3<u32> {
  let group = y / ${cuts}u;
  if (group >= groups[0]) {
    return vec3<u32>(0u);
  }
  let i = 4u + 4u * group;
  return vec3<u32>(groups[i], groups[i + 1u] + y % ${cuts}u * ${columns * tile}u, groups[i + 2u]);
}

fn column_count() -> u32 {
  return group_end;
}

fn result_row(column: u32) -> u32 {
  return groups[${4 + 4 * most_groups}u + min(column, group_end - 1u)];
}

fn source_row(column: u32) -> u32 {
  return result_row(column)${" / " ~ rows_of_pairs ~ "u" if rows_of_pairs > 1 else ""};
}
