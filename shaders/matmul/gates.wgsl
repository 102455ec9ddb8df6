
fn silu(v: vec4<f32>) -> vec4<f32> {
  return v / (1.0 + exp(-v));
}
