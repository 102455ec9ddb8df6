{# Embeddings of tokens or positions into the residual stream, or onto it; where the first norm's factor is left to its
   readers, with its input written along. A cluster of eight threads makes 32 values of a row; a table that is split over
   several buffers takes one dispatch each. #}
@group(0) @binding(0) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> slots: array<u32>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;
{% if normed %}
@group(0) @binding(4) var<storage, read> gain: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> squares: array<f32>;
@group(0) @binding(6) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% endif %}
{% set threads = 8 %}
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "quants/common.wgsl" %}
{% if normed %}
{% include "cluster.wgsl" %}
{% include "normed_activation.wgsl" %}
{% endif %}
{% if quant_is_float %}
fn embedding(index: u32, block: u32, lane: u32) -> vec4<f32> {
  return values(index, block * 8u, lane);
}
{% else %}
{% include "quants/unit_values.wgsl" %}

fn embedding(index: u32, block: u32, lane: u32) -> vec4<f32> {
  let q = quants(index, block, 0u);
  let s = scales(index, block, 0u);
  let packed = select(q.hi[lane & 3u], q.lo[lane & 3u], lane < 4u);
  let scale = select(s.zw, s.xy, lane < 4u);
  return weight4(packed, scale.x, scale.y);
}
{% endif %}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let block = workgroup.x;
  let row = workgroup.y;
  let index = ${{"token": "row_token(row)", "position": "row_position(row)", "first": "0u"}[index]};
  let live = row < row_count() && index >= ${part_start}u && index < ${part_stop}u && block * 8u + lane < ${(width + 3) // 4}u;
  var values = vec4<f32>(0.0);
  if (live) {
    let i = row * ${(width + 3) // 4}u + block * 8u + lane;
    values = embedding(index - ${part_start}u, block, lane) * ${scale}${" + x[i]" if add};
    x[i] = values;
  }
{% if normed %}
  write_normed(row, block, lane, lane, live, values);
{% endif %}
}
