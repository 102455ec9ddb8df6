{% include "quants/bit_pairs.wgsl" %}
const SPLIT_SCALES = true;

{# Bit j of the 32 high bytes of a superblock belongs to unit j. #}
fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let low = bit_pairs(feature, unit, odd);
  let i = (HIGH + feature * HIGH_ROW) / 4u + 2u * (unit >> 3u);
  let bit = vec4<u32>((unit + odd) & 7u);
  let one = vec4<u32>(0x01010101u);
  return Quants(
    low.lo | (((w[i] >> bit) & one) << vec4<u32>(2u)), low.hi | (((w[i + 1u] >> bit) & one) << vec4<u32>(2u)));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  // 16 scales of 6 bits: 8 bytes of low nibbles, then 4 bytes with the two high bits of four scales each
  let block = unit >> 3u;
  let j = (unit + odd) & 7u;
  let start = SCALES + feature * SCALES_ROW + 3u * block;
  let low = word(start + ((j >> 1u) & 1u)) >> (16u * (j & 1u) + 4u * (j >> 2u));
  let high = word(start + 2u) >> (16u * (j & 1u) + 2u * (j >> 1u));
  let pair = vec2<f32>(unpack4xU8((low & 0x0f0fu) | ((high & 0x0303u) << 4u)).xy) - vec2<f32>(32.0);
  let scale = pair * half_float(SCALE + feature * SCALE_ROW, block);
  return vec4<f32>(scale.x, -4.0 * scale.x, scale.y, -4.0 * scale.y);
}
