fn values(feature: u32, group: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(w[(VALUES + feature * VALUES_ROW) / 4u + group]);
}
