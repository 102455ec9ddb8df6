{% include "quants/fifth_bit.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let v = w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd];
  return with_fifth_bits(v, word(HIGH + feature * HIGH_ROW + unit + odd));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = half_float(SCALE + feature * SCALE_ROW, unit + odd);
  return vec4<f32>(d, -16.0 * d, d, -16.0 * d);
}
