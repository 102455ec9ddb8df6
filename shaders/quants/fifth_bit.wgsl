{# Bit i of `bits` becomes bit 4 of weight i. #}
fn fifth_bits(bits: u32) -> u32 {
  return ((bits & 1u) << 4u) | ((bits & 2u) << 11u) | ((bits & 4u) << 18u) | ((bits & 8u) << 25u);
}

fn with_fifth_bits(v: vec4<u32>, bits: u32) -> Quants {
  let lo = vec4<u32>(fifth_bits(bits), fifth_bits(bits >> 4u), fifth_bits(bits >> 8u), fifth_bits(bits >> 12u));
  let hi = vec4<u32>(
    fifth_bits(bits >> 16u), fifth_bits(bits >> 20u), fifth_bits(bits >> 24u), fifth_bits(bits >> 28u));
  return Quants((v & vec4<u32>(0x0f0f0f0fu)) | lo, ((v >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)) | hi);
}
