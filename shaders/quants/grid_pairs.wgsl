{# Look-up of eight weights at a time: entries of 16 bits, two for a weight. #}
{% include "quants/spread_pairs.wgsl" %}
{% include "quants/grid.wgsl" %}
fn grid_entry(i: u32) -> u32 {
  return grid_word(i >> 1u) >> (16u * (i & 1u));
}

fn grid_pairs(i: vec4<u32>) -> Quants {
  let e = vec4<u32>(grid_entry(i.x), grid_entry(i.y), grid_entry(i.z), grid_entry(i.w));
  let bytes = vec4<u32>(0u, 8u, 0u, 8u);
  return Quants(spread_pairs(e.xxyy >> bytes), spread_pairs(e.zzww >> bytes));
}
