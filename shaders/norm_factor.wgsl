{# The factor of an RMS norm from its sums of squares, bound as `squares_in: array<vec4<f32>>`. #}
fn norm_factor(row: u32) -> f32 {
  var sums = vec4<f32>(0.0);
  for (var i = 0u; i < ${square_words_in // 4}u; i++) {
    sums += squares_in[row * ${square_words_in // 4}u + i];
  }
  return 1.0 / sqrt(((sums.x + sums.y) + (sums.z + sums.w)) / ${width_in}.0 + ${eps});
}
