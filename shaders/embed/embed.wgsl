{# Token embeddings into the residual stream, with the first norm's input written along. A cluster of eight threads makes
   32 values of a row; a table that is split over several buffers takes one dispatch each. #}
@group(0) @binding(0) var<storage, read> w: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> state: array<u32>;
@group(0) @binding(2) var<storage, read> slots: array<u32>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> gain: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> squares: array<f32>;
@group(0) @binding(6) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% set threads = 8 %}
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "quants/common.wgsl" %}
{% include "cluster.wgsl" %}
{% include "normed_activation.wgsl" %}
{% if quant_is_float %}
fn embedding(token: u32, block: u32, lane: u32) -> vec4<f32> {
  return values(token, block * 8u + lane);
}
{% else %}
{% include "quants/unit_values.wgsl" %}

fn embedding(token: u32, block: u32, lane: u32) -> vec4<f32> {
  let q = quants(token, block);
  let s = scales(token, block);
  let packed = select(q.hi[lane & 3u], q.lo[lane & 3u], lane < 4u);
  let scale = select(s.zw, s.xy, lane < 4u);
  return weight4(packed, scale.x, scale.y);
}
{% endif %}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let block = workgroup.x;
  let row = workgroup.y;
  let token = row_token(row);
  let live = row < row_count() && token >= ${part_start}u && token < ${part_stop}u && block * 8u + lane < ${(width + 3) // 4}u;
  var values = vec4<f32>(0.0);
  if (live) {
    values = embedding(token - ${part_start}u, block, lane) * ${scale};
    x[row * ${(width + 3) // 4}u + block * 8u + lane] = values;
  }
  write_normed(row, block, lane, lane, live, values);
}
