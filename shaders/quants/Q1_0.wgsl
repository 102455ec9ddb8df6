{% include "quants/bits.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  return bits(word(QUANTS + feature * QUANTS_ROW + unit + odd));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = half_float(SCALE + feature * SCALE_ROW, unit >> 2u);
  return vec4<f32>(2.0 * d, -d, 2.0 * d, -d);
}
