{# The low byte of each component as four bytes of two bits, in order. #}
fn spread_pairs(v: vec4<u32>) -> vec4<u32> {
  let nibbles = (v & vec4<u32>(0x0fu)) | ((v & vec4<u32>(0xf0u)) << vec4<u32>(12u));
  return (nibbles & vec4<u32>(0x00030003u)) | ((nibbles & vec4<u32>(0x000c000cu)) << vec4<u32>(6u));
}
