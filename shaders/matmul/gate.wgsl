{# The gated activation of gate and up that were made by products of their own, for `pairs` experts a row. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> both: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% set threads = 8 %}
{% include "state.wgsl" %}
{% include "cluster.wgsl" %}
{% include "activation.wgsl" %}
{% include "matmul/gates.wgsl" %}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let i = workgroup.x * 8u + lane;
  let row = workgroup.y;
  let live = row < row_count()${" * " ~ pairs ~ "u" if pairs > 1 else ""} && i < ${width // 4}u;
  var values = vec4<f32>(0.0);
  if (live) {
    let base = row * ${2 * width // 4}u + i;
    values = ${gate}(both[base]) * both[base + ${width // 4}u];
  }
  write_activation(row, workgroup.x, lane, lane, live, values);
}
