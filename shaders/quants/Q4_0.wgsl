const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let v = w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd];
  return Quants(v & vec4<u32>(0x0f0f0f0fu), (v >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = half_float(SCALE + feature * SCALE_ROW, unit + odd);
  return vec4<f32>(d, -8.0 * d, d, -8.0 * d);
}
