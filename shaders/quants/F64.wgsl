{# Rounded to the nearest f32: what is too small for one becomes 0, what is too large infinite. #}
fn single(bits: vec2<u32>) -> f32 {
  let exponent = (bits.y >> 20u) & 0x7ffu;
  let fraction = ((bits.y << 3u) | (bits.x >> 29u)) & 0x7fffffu;
  // a carry out of the fraction goes where it belongs, into the exponent
  let size = (((exponent - 896u) << 23u) | fraction) + ((bits.x >> 28u) & 1u);
  let finite = select(size, 0u, exponent <= 896u);
  return bitcast<f32>((bits.y & 0x80000000u) | select(finite, 0x7f800000u, exponent > 1150u));
}

fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  let at = (VALUES + feature * VALUES_ROW) / 4u + 2u * (first + i);
  return vec4<f32>(single(w[at].xy), single(w[at].zw), single(w[at + 1u].xy), single(w[at + 1u].zw));
}
