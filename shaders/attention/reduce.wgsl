{# Folds the partitions of a split attention together in order and writes the result: a cluster of eight threads makes 32
   values of a row. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% if sinks %}
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
{% endif %}
{% set threads = 8 %}
{% set quads = head_dim // 4 %}
{% set width = heads * head_dim %}
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "cluster.wgsl" %}
{% include "activation.wgsl" %}
{% include "attention/span.wgsl" %}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let i = workgroup.x * 8u + lane;
  let row = workgroup.y;
  let live = row < row_count() && i < ${heads * quads}u;
  var whole_max = -3.0e38;
  var whole_sum = 0.0;
  var whole = vec4<f32>(0.0);
  if (live) {
    let head = i / ${quads}u;
    let seen = last_seen(row);
    let count = seen / ${partition}u - first_seen(seen) / ${partition}u + 1u;
{% if sinks %}
    whole_max = sinks[head];
    whole_sum = 1.0;
{% endif %}
    for (var part = 0u; part < count; part++) {
      let at = ((row * ${heads}u + head) * ${partitions}u + part) * ${quads + 1}u;
      let softmax = partials[at + ${quads}u];
      let top = max(whole_max, softmax.x);
      let old = exp(whole_max - top);
      let fresh = exp(softmax.x - top);
      whole_max = top;
      whole_sum = fma(whole_sum, old, softmax.y * fresh);
      whole = fma(whole, vec4<f32>(old), partials[at + i % ${quads}u] * fresh);
    }
  }
  write_activation(row, workgroup.x, lane, lane, live, whole / whole_sum);
}
