{# Writes the input of the next RMS norm's readers: values times the norm's gain, and the sums of squares that its factor
   is made of. Bindings: `h`, `gain: array<vec4<f32>>`, `squares`. #}
{% include "activation.wgsl" %}
{% include "squares.wgsl" %}

fn write_normed(row: u32, block: u32, lane: u32, thread: u32, live: bool, values: vec4<f32>) {
  write_squares(row, block, lane, thread, live, values);
  var g = vec4<f32>(0.0);
  if (live) {
    g = gain[block * 8u + lane];
  }
  write_activation(row, block, lane, thread, live, select(vec4<f32>(0.0), values, live) * g);
}
