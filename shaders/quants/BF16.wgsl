fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  let both = w[(VALUES + feature * VALUES_ROW) / 4u + first / 2u + i / 2u];
  let v = select(both.xy, both.zw, (i & 1u) != 0u);
  return bitcast<vec4<f32>>(vec4<u32>(v.x << 16u, v.x & 0xffff0000u, v.y << 16u, v.y & 0xffff0000u));
}
