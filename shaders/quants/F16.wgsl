fn values(feature: u32, group: u32) -> vec4<f32> {
  let i = VALUES + feature * VALUES_ROW + 2u * group;
  return vec4<f32>(unpack2x16float(word(i)), unpack2x16float(word(i + 1u)));
}
