{# Folds the partitions of `attention/lanes.wgsl` together in order and writes the head's result. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> partials: array<f32>;
@group(0) @binding(3) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% set threads = 8 %}
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "cluster.wgsl" %}
{% include "attention/output.wgsl" %}

fn partial4(at: u32) -> vec4<f32> {
  return vec4<f32>(partials[at], partials[at + 1u], partials[at + 2u], partials[at + 3u]);
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let head = workgroup.x;
  let row = workgroup.y;
  let eighth = workgroup.z * 8u + lane;
  if (row >= row_count()) {
    return;
  }
  let count = row_position(row) / ${partition}u + 1u;
  let value = min(8u * eighth, ${head_dim - 8}u);
  var whole_max = -3.0e38;
  var whole_sum = 0.0;
  var low = vec4<f32>(0.0);
  var high = vec4<f32>(0.0);
  for (var part = 0u; part < count; part++) {
    let at = ((row * ${heads}u + head) * ${partitions}u + part) * ${head_dim + 2}u;
    let part_max = partials[at + ${head_dim}u];
    let top = max(whole_max, part_max);
    let old = exp(whole_max - top);
    let fresh = exp(part_max - top);
    whole_max = top;
    whole_sum = fma(whole_sum, old, partials[at + ${head_dim + 1}u] * fresh);
    low = fma(low, vec4<f32>(old), partial4(at + value) * fresh);
    high = fma(high, vec4<f32>(old), partial4(at + value + 4u) * fresh);
  }
  write_head(row, head, eighth, lane, low / whole_sum, high / whole_sum);
}
