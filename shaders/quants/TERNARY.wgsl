{% include "quants/bit_pairs.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  return bit_pairs(feature, unit, odd);
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = bitcast<f32>(word(SCALE + feature * SCALE_ROW + (unit >> 3u)));
  return vec4<f32>(d, -d, d, -d);
}
