{# Four consecutive weights of a block type as floats: group 0..7 of a unit. #}
fn weight4(packed: u32, scale: f32, offset: f32) -> vec4<f32> {
  return fma(vec4<f32>(unpack4xI8(packed)), vec4<f32>(scale), vec4<f32>(offset));
}
