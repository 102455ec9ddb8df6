{# Eight weights have a byte of low bits of their grid index, and half a byte of three high bits and one that tells
   whether 1/8 is added to them or taken off: q is eight times that. A superblock's scale lies in the top four bits of
   each of the four halves whose others are scales of 16 weights. #}
{% include "quants/grid_pairs.wgsl" %}
const SPLIT_SCALES = true;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let bytes = vec4<u32>(0u, 8u, 16u, 24u);
  let low = (vec4<u32>(word(QUANTS + feature * QUANTS_ROW + unit + odd)) >> bytes) & vec4<u32>(255u);
  let high = vec4<u32>(half_at(HIGH + feature * HIGH_ROW, unit + odd)) >> vec4<u32>(0u, 4u, 8u, 12u);
  let pairs = grid_pairs(low | ((high & vec4<u32>(7u)) << vec4<u32>(8u)));
  // 8 * pair - 8 + 1 or - 1, the sign bit inverted so that nothing is borrowed from the next byte
  let shift = vec4<u32>(0x79797979u) - ((high >> vec4<u32>(3u)) & vec4<u32>(1u)) * 0x02020202u;
  let sign = vec4<u32>(0x80808080u);
  return Quants((pairs.lo * 8u + shift.xxyy) ^ sign, (pairs.hi * 8u + shift.zzww) ^ sign);
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let start = SCALES + feature * SCALES_ROW;
  let i = start + 2u * (unit >> 3u);
  let words = vec2<u32>(word(i), word(i + 1u));
  let top = (words.xxyy >> vec4<u32>(12u, 24u, 4u, 16u)) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u);
  let d = 0.125 * unpack2x16float(top.x | top.y | top.z | top.w).x;
  let pair = half_at(start, unit >> 1u) >> (6u * ((unit + odd) & 1u));
  return vec4<f32>(d * f32(2u * (pair & 7u) + 1u), 0.0, d * f32(2u * ((pair >> 3u) & 7u) + 1u), 0.0);
}
