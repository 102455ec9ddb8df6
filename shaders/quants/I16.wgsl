fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  let at = INTEGERS + feature * INTEGERS_ROW + 2u * (first + i);
  let v = vec2<u32>(word(at), word(at + 1u));
  return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(v.x << 16u, v.x, v.y << 16u, v.y)) >> vec4<u32>(16u));
}
