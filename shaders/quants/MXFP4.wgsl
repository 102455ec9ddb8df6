{% include "quants/fp4.wgsl" %}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let v = w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd];
  return Quants(fp4(v), fp4(v >> vec4<u32>(4u)));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  // half of 2^(exponent - 127), as fp4() doubles; adapters may take the two least, which are subnormal, for zero
  let exponent = byte_at(EXPONENT + feature * EXPONENT_ROW, unit + odd);
  let d = bitcast<f32>(select((exponent - 1u) << 23u, 0x200000u << exponent, exponent < 2u));
  return vec4<f32>(d, 0.0, d, 0.0);
}
