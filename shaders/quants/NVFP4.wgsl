{# Blocks of 2 units; 16 weights are the low, then the high nibbles of 8 bytes. #}
{% include "quants/fp4.wgsl" %}
const SPLIT_SCALES = true;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let v = w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd];
  let high = v >> vec4<u32>(4u);
  return Quants(fp4(vec4<u32>(v.xy, high.xy)), fp4(vec4<u32>(v.zw, high.zw)));
}

fn half_scale(bits: u32) -> f32 {
  // an unsigned float with four bits of exponent and three of mantissa, halved, as fp4() doubles
  let normal = bitcast<f32>(((bits & 127u) << 20u) + (119u << 23u));
  let value = select(normal, f32(bits & 7u) * 0x1p-10, (bits & 0x78u) == 0u);
  return select(value, 0.0, bits == 127u);
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let pair = half_at(SCALES + feature * SCALES_ROW, unit + odd);
  return vec4<f32>(half_scale(pair & 255u), 0.0, half_scale(pair >> 8u), 0.0);
}
