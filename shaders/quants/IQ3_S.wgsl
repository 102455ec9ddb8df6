{# A unit has eight bytes of low bits of grid indices, a byte of their ninth bits, four bytes of signs, and half a byte
   of scale. #}
{% include "quants/grid_words.wgsl" %}
{% include "quants/signs.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32) -> Quants {
  let i = QUANTS + feature * QUANTS_ROW + 2u * unit;
  let bytes = vec4<u32>(0u, 8u, 16u, 24u);
  let high = byte_at(HIGH + feature * HIGH_ROW, unit);
  let lo = (vec4<u32>(high) << vec4<u32>(8u, 7u, 6u, 5u)) & vec4<u32>(256u);
  let hi = (vec4<u32>(high) << vec4<u32>(4u, 3u, 2u, 1u)) & vec4<u32>(256u);
  let size = Quants(
    grid_words(((vec4<u32>(word(i)) >> bytes) & vec4<u32>(255u)) | lo),
    grid_words(((vec4<u32>(word(i + 1u)) >> bytes) & vec4<u32>(255u)) | hi));
  return with_signs(size, word(SIGNS + feature * SIGNS_ROW + unit));
}

fn scales(feature: u32, unit: u32) -> vec4<f32> {
  let block = unit >> 3u;
  let scale = (word(SCALES + feature * SCALES_ROW + block) >> (4u * (unit & 7u))) & 15u;
  let d = half_float(SCALE + feature * SCALE_ROW, block) * f32(2u * scale + 1u);
  return vec4<f32>(d, 0.0, d, 0.0);
}
