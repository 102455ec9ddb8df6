fn values(feature: u32, group: u32) -> vec4<f32> {
  let i = INTEGERS + feature * INTEGERS_ROW + 2u * group;
  let v = vec2<u32>(word(i), word(i + 1u));
  return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(v.x << 16u, v.x, v.y << 16u, v.y)) >> vec4<u32>(16u));
}
