{% include "quants/bits.wgsl" %}
{# The size of 32 weights, none of them 0, with a bit of sign for each. #}
fn with_signs(size: Quants, signs: u32) -> Quants {
  let minus = bits(signs);
  return Quants((size.lo ^ (minus.lo * 255u)) + minus.lo, (size.hi ^ (minus.hi * 255u)) + minus.hi);
}

{# The signs of 32 weights from four times 7 bits: the eighth is such that an even number of them are set. #}
fn even_signs(groups: vec4<u32>) -> u32 {
  let bytes = groups | ((countOneBits(groups) & vec4<u32>(1u)) << vec4<u32>(7u));
  return bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
}
