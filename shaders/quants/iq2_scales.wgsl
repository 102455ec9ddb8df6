{# A byte of two scales for each unit. #}
const SPLIT_SCALES = true;

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let pair = byte_at(SCALES + feature * SCALES_ROW, unit + odd);
  let d = 0.25 * half_float(SCALE + feature * SCALE_ROW, unit >> 3u);
  return vec4<f32>(d * (f32(pair & 15u) + 0.5), 0.0, d * (f32(pair >> 4u) + 0.5), 0.0);
}
