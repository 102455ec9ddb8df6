{# What the chosen experts of each row gave, added to the residual stream one by one in order of their numbers, with the
   next norm's input written along. Eight clusters of eight threads make 256 values of a row. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> choices: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> given: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> gain: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> squares: array<f32>;
@group(0) @binding(6) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% set threads = 64 %}
{% set row_vectors = (width + 3) // 4 %}
{% include "state.wgsl" %}
{% include "cluster.wgsl" %}
{% include "normed_activation.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let i = workgroup.x * 64u + thread;
  let row = workgroup.y;
  let live = row < row_count() && i < ${row_vectors}u;
  var sum = vec4<f32>(0.0);
  if (live) {
    sum = x[row * ${row_vectors}u + i];
    for (var slot = 0u; slot < ${used}u; slot++) {
      let pair = row * ${used}u + slot;
      sum = fma(vec4<f32>(bitcast<f32>(choices[pair].y)), given[pair * ${row_vectors}u + i], sum);
    }
    x[row * ${row_vectors}u + i] = sum;
  }
  write_normed(row, i / 8u, thread & 7u, thread, live, sum);
}
