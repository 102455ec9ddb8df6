fn values(feature: u32, group: u32) -> vec4<f32> {
  let i = VALUES + feature * VALUES_ROW + 2u * group;
  let v = vec2<u32>(word(i), word(i + 1u));
  return bitcast<vec4<f32>>(vec4<u32>(v.x << 16u, v.x & 0xffff0000u, v.y << 16u, v.y & 0xffff0000u));
}
