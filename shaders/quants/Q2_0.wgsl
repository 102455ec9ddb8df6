{% include "quants/spread_pairs.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let i = QUANTS + feature * QUANTS_ROW + 2u * (unit + odd);
  let bytes = vec4<u32>(0u, 8u, 16u, 24u);
  return Quants(spread_pairs(vec4<u32>(word(i)) >> bytes), spread_pairs(vec4<u32>(word(i + 1u)) >> bytes));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = half_float(SCALE + feature * SCALE_ROW, unit >> 1u);
  return vec4<f32>(d, -d, d, -d);
}
