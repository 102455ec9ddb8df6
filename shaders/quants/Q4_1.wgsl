const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let v = w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd];
  return Quants(v & vec4<u32>(0x0f0f0f0fu), (v >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  return unpack2x16float(word(SCALE_MIN + feature * SCALE_MIN_ROW + unit + odd)).xyxy;
}
