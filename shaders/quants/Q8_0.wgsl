const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let i = (QUANTS + feature * QUANTS_ROW) / 4u + 2u * (unit + odd);
  return Quants(w[i], w[i + 1u]);
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = half_float(SCALE + feature * SCALE_ROW, unit + odd);
  return vec4<f32>(d, 0.0, d, 0.0);
}
