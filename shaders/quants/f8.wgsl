{# Floats of eight bits, `mantissa` of them behind the point, with a scale for each 128. Subnormal ones are made from
   whole numbers, since adapters may take subnormal f32 for zero. #}
fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  let bits = (vec4<u32>(word(VALUES + feature * VALUES_ROW + first + i)) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
  let size = bits & vec4<u32>(127u);
  let normal = bitcast<vec4<f32>>((size << vec4<u32>(${23 - mantissa}u)) + vec4<u32>(${127 - bias}u << 23u));
  let subnormal = vec4<f32>(size) * 0x1p-${bias - 1 + mantissa};
  let value = select(normal, subnormal, size < vec4<u32>(${2 ** mantissa}u));
  let signed = bitcast<vec4<f32>>(bitcast<vec4<u32>>(value) | ((bits & vec4<u32>(128u)) << vec4<u32>(24u)));
  return signed * bitcast<f32>(word(SCALE + feature * SCALE_ROW + ((first + i) >> 5u)));
}
