{# A unit is four halves of 9 bits of grid index and 7 of signs. #}
{% include "quants/iq2_sizes.wgsl" %}
{% include "quants/iq2_scales.wgsl" %}
{% include "quants/signs.wgsl" %}
fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let i = QUANTS + feature * QUANTS_ROW + 2u * (unit + odd);
  let halves = (vec2<u32>(word(i), word(i + 1u)).xxyy >> vec4<u32>(0u, 16u, 0u, 16u)) & vec4<u32>(0xffffu);
  return with_signs(grid_sizes(halves & vec4<u32>(511u)), even_signs(halves >> vec4<u32>(9u)));
}
