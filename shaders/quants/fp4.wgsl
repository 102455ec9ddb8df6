{# Floats of four bits (sign, two of exponent, one of mantissa) as int8 of twice their value: 0, 1, 2, 3, 4, 6, 8, 12. #}
fn fp4(v: vec4<u32>) -> vec4<u32> {
  let one = vec4<u32>(0x01010101u);
  // n for n < 4, then n + (n & 3), and 2 more for the last
  let more = v & (((v >> vec4<u32>(2u)) & one) * 3u);
  let last = more & (more >> vec4<u32>(1u)) & one;
  let size = (v & vec4<u32>(0x07070707u)) + more + 2u * last;
  // negative ones: inverted and 1 added, which must not carry from one byte into the next where the size is 0
  let sign = (v >> vec4<u32>(3u)) & one;
  let inverted = size ^ (sign * 255u);
  return ((inverted & vec4<u32>(0x7f7f7f7fu)) + sign) ^ (inverted & vec4<u32>(0x80808080u));
}
