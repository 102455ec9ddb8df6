{% include "quants/fifth_bit.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let v = w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd];
  return with_fifth_bits(v, word(HIGH + feature * HIGH_ROW + unit + odd));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  return unpack2x16float(word(SCALE_MIN + feature * SCALE_MIN_ROW + unit + odd)).xyxy;
}
