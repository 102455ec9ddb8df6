{# A unit has four bytes of low bits of grid indices, a byte of their two high bits, and four bytes of signs. #}
{% include "quants/iq2_sizes.wgsl" %}
{% include "quants/iq2_scales.wgsl" %}
{% include "quants/signs.wgsl" %}
fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let bytes = vec4<u32>(0u, 8u, 16u, 24u);
  let low = (vec4<u32>(word(QUANTS + feature * QUANTS_ROW + unit + odd)) >> bytes) & vec4<u32>(255u);
  let high = (vec4<u32>(byte_at(HIGH + feature * HIGH_ROW, unit + odd)) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u);
  return with_signs(grid_sizes(low | (high << vec4<u32>(8u))), word(SIGNS + feature * SIGNS_ROW + unit + odd));
}
