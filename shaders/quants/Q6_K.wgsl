{# Superblocks of 8 units: 64 bytes of nibbles and 32 bytes of bit pairs serve four units. #}
const SPLIT_SCALES = true;

fn centred(low: vec4<u32>, high: vec4<u32>) -> vec4<u32> {
  // q - 32 as int8: flip bit 5, then extend it as the sign
  let q = (low | (high << vec4<u32>(4u))) ^ vec4<u32>(0x20202020u);
  let sign = q & vec4<u32>(0x20202020u);
  return q | (sign << vec4<u32>(1u)) | (sign << vec4<u32>(2u));
}

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let group = unit >> 2u;
  let j = (unit + odd) & 3u;
  let low = (QUANTS + feature * QUANTS_ROW) / 4u + 4u * group + 2u * (j & 1u);
  let high = (HIGH + feature * HIGH_ROW) / 4u + 2u * group;
  let nibble = vec4<u32>(4u * (j >> 1u));
  let pair = vec4<u32>(2u * j);
  return Quants(
    centred((w[low] >> nibble) & vec4<u32>(0x0f0f0f0fu), (w[high] >> pair) & vec4<u32>(0x03030303u)),
    centred((w[low + 1u] >> nibble) & vec4<u32>(0x0f0f0f0fu), (w[high + 1u] >> pair) & vec4<u32>(0x03030303u)));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = half_float(SCALE + feature * SCALE_ROW, unit >> 3u);
  let pair = word(SCALES + feature * SCALES_ROW + (unit >> 1u)) >> (16u * ((unit + odd) & 1u));
  let scale = vec2<f32>(unpack4xI8(pair).xy) * d;
  return vec4<f32>(scale.x, 0.0, scale.y, 0.0);
}
