{# A unit has eight bytes of grid indices, and a word of four times 7 bits of signs and 4 of scale. #}
{% include "quants/grid_words.wgsl" %}
{% include "quants/signs.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let i = QUANTS + feature * QUANTS_ROW + 2u * (unit + odd);
  let bytes = vec4<u32>(0u, 8u, 16u, 24u);
  let lo = grid_words((vec4<u32>(word(i)) >> bytes) & vec4<u32>(255u));
  let hi = grid_words((vec4<u32>(word(i + 1u)) >> bytes) & vec4<u32>(255u));
  let packed = vec4<u32>(word(SIGNS + feature * SIGNS_ROW + unit + odd));
  let signs = (packed >> vec4<u32>(0u, 7u, 14u, 21u)) & vec4<u32>(127u);
  return with_signs(Quants(lo, hi), even_signs(signs));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let scale = f32(word(SIGNS + feature * SIGNS_ROW + unit + odd) >> 28u) + 0.5;
  let d = 0.5 * half_float(SCALE + feature * SCALE_ROW, unit >> 3u) * scale;
  return vec4<f32>(d, 0.0, d, 0.0);
}
