fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xI8(word(INTEGERS + feature * INTEGERS_ROW + first + i)));
}
