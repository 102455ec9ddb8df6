fn number(bits: vec2<u32>) -> f32 {
  // from the size: the halves of a small negative number are large ones that would have to cancel out
  let negative = bits.y >= 0x80000000u;
  let carry = select(0u, 1u, bits.x == 0u);
  let size_bits = select(bits, vec2<u32>(~bits.x + 1u, ~bits.y + carry), negative);
  let size = f32(size_bits.y) * 0x1p32 + f32(size_bits.x);
  return select(size, -size, negative);
}

fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  let at = (INTEGERS + feature * INTEGERS_ROW) / 4u + 2u * (first + i);
  return vec4<f32>(number(w[at].xy), number(w[at].zw), number(w[at + 1u].xy), number(w[at + 1u].zw));
}
