{% include "quants/iq4_values.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  return nibble_quants(w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd]);
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  // of 6 bits, the low four of a unit in a word and the high two in half a word for the block
  let block = unit >> 3u;
  let j = (unit + odd) & 7u;
  let low = (word(SCALES_LOW + feature * SCALES_LOW_ROW + block) >> (4u * j)) & 15u;
  let high = (half_at(SCALES_HIGH + feature * SCALES_HIGH_ROW, block) >> (2u * j)) & 3u;
  let d = half_float(SCALE + feature * SCALE_ROW, block) * (f32(low | (high << 4u)) - 32.0);
  return vec4<f32>(d, 0.0, d, 0.0);
}
