{% include "quants/bit_pairs.wgsl" %}
const SPLIT_SCALES = true;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  return bit_pairs(feature, unit, odd);
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  // a byte for 16 weights: scale in the low nibble, minimum in the high one
  let bytes = half_at(SCALES + feature * SCALES_ROW, unit + odd);
  let nibbles = (vec4<u32>(bytes) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
  let d = unpack2x16float(word(SCALE_MIN + feature * SCALE_MIN_ROW + (unit >> 3u)));
  return vec4<f32>(nibbles) * vec4<f32>(d.x, -d.y, d.x, -d.y);
}
