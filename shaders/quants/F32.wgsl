fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(w[(VALUES + feature * VALUES_ROW) / 4u + first + i]);
}
