{# A unit is two words: four bytes of grid indices; four times 7 bits of signs and 4 of scale. #}
{% include "quants/iq2_sizes.wgsl" %}
{% include "quants/signs.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let i = QUANTS + feature * QUANTS_ROW + 2u * (unit + odd);
  let index = (vec4<u32>(word(i)) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
  let signs = (vec4<u32>(word(i + 1u)) >> vec4<u32>(0u, 7u, 14u, 21u)) & vec4<u32>(127u);
  return with_signs(grid_sizes(index), even_signs(signs));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let scale = f32(word(QUANTS + feature * QUANTS_ROW + 2u * (unit + odd) + 1u) >> 28u) + 0.5;
  let d = 0.25 * half_float(SCALE + feature * SCALE_ROW, unit >> 3u) * scale;
  return vec4<f32>(d, 0.0, d, 0.0);
}
