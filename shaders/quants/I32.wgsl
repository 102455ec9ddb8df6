fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  return vec4<f32>(bitcast<vec4<i32>>(w[(INTEGERS + feature * INTEGERS_ROW) / 4u + first + i]));
}
