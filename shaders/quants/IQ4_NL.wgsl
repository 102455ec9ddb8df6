{% include "quants/iq4_values.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  return nibble_quants(w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd]);
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = half_float(SCALE + feature * SCALE_ROW, unit + odd);
  return vec4<f32>(d, 0.0, d, 0.0);
}
