{# A byte of 0 or 1 for each of 32 bits, in order. #}
fn bits(packed: u32) -> Quants {
  let nibbles = vec4<u32>(0u, 4u, 8u, 12u);
  let lo = (vec4<u32>(packed) >> nibbles) & vec4<u32>(15u);
  let hi = (vec4<u32>(packed >> 16u) >> nibbles) & vec4<u32>(15u);
  // copies 7 bits apart: bit i of a nibble gets to bit 8 * i
  return Quants((lo * 0x204081u) & vec4<u32>(0x01010101u), (hi * 0x204081u) & vec4<u32>(0x01010101u));
}
