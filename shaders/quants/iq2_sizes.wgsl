{% include "quants/grid_pairs.wgsl" %}
fn size_of(pairs: vec4<u32>) -> vec4<u32> {
  // 8, 25 or 43
  return pairs * 17u + ((pairs >> vec4<u32>(1u)) & vec4<u32>(0x01010101u)) + vec4<u32>(0x08080808u);
}

fn grid_sizes(i: vec4<u32>) -> Quants {
  let pairs = grid_pairs(i);
  return Quants(size_of(pairs.lo), size_of(pairs.hi));
}
