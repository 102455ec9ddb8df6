{# A unit has four bytes of low bits of grid indices, and a half of four times 3 bits of high bits, 3 of scale and 1 that
   tells whether 1/8 is added to its weights or taken off. #}
{% include "quants/grid_pairs.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let bytes = vec4<u32>(0u, 8u, 16u, 24u);
  let low = (vec4<u32>(word(QUANTS + feature * QUANTS_ROW + unit + odd)) >> bytes) & vec4<u32>(255u);
  let high = (vec4<u32>(half_at(HIGH + feature * HIGH_ROW, unit + odd)) >> vec4<u32>(0u, 3u, 6u, 9u)) & vec4<u32>(7u);
  return grid_pairs(low | (high << vec4<u32>(8u)));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let bits = half_at(HIGH + feature * HIGH_ROW, unit + odd);
  let d = half_float(SCALE + feature * SCALE_ROW, unit >> 3u) * f32(2u * ((bits >> 12u) & 7u) + 1u);
  return vec2<f32>(d, d * select(-0.875, -1.125, bits >= 0x8000u)).xyxy;
}
