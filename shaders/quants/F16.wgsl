fn values(feature: u32, first: u32, i: u32) -> vec4<f32> {
  let both = w[(VALUES + feature * VALUES_ROW) / 4u + first / 2u + i / 2u];
  let v = select(both.xy, both.zw, (i & 1u) != 0u);
  return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
}
