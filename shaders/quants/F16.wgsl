fn values(feature: u32, group: u32) -> vec4<f32> {
  let both = w[(VALUES + feature * VALUES_ROW) / 4u + group / 2u];
  let v = select(both.xy, both.zw, (group & 1u) != 0u);
  return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
}
