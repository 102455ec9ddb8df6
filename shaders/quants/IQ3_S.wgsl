{# A unit has eight bytes of low bits of grid indices, a byte of their ninth bits, four bytes of signs, and half a byte
   of scale. Weights are odd multiples of it from -15 to 15, which q numbers from 0 to 15; the grid has the q of positive
   ones, and that of a negative one is 15 minus it. #}
{% include "quants/grid_words.wgsl" %}
{% include "quants/bits.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let i = QUANTS + feature * QUANTS_ROW + 2u * (unit + odd);
  let bytes = vec4<u32>(0u, 8u, 16u, 24u);
  let high = (word(HIGH + feature * HIGH_ROW + (unit >> 2u)) >> (8u * ((unit + odd) & 3u))) & 255u;
  let lo = (vec4<u32>(high) << vec4<u32>(8u, 7u, 6u, 5u)) & vec4<u32>(256u);
  let hi = (vec4<u32>(high) << vec4<u32>(4u, 3u, 2u, 1u)) & vec4<u32>(256u);
  let minus = bits(word(SIGNS + feature * SIGNS_ROW + unit + odd));
  return Quants(
    grid_words(((vec4<u32>(word(i)) >> bytes) & vec4<u32>(255u)) | lo) ^ (minus.lo * 15u),
    grid_words(((vec4<u32>(word(i + 1u)) >> bytes) & vec4<u32>(255u)) | hi) ^ (minus.hi * 15u));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let block = unit >> 3u;
  let scale = (word(SCALES + feature * SCALES_ROW + block) >> (4u * ((unit + odd) & 7u))) & 15u;
  let d = half_float(SCALE + feature * SCALE_ROW, block) * f32(2u * scale + 1u);
  return vec4<f32>(2.0 * d, -15.0 * d, 2.0 * d, -15.0 * d);
}
