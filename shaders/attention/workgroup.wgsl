{# Attention of one row and one query head by a workgroup, with workgroup memory in place of subgroups.

   Threads stand for positions while scores are made; while values are added up, for four neighbouring values of the head,
   and several groups of threads share the positions. Partitions and their folding are those of `attention/lanes.wgsl`. #}
{% set quads = head_dim // 4 %}
{% set groups = threads // quads %}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> tables: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<${"vec2<u32>" if kv_type == "f16" else "vec4<f32>"}>;
{% if split %}
@group(0) @binding(5) var<storage, read_write> partials: array<vec4<f32>>;
{% else %}
@group(0) @binding(5) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% if sinks %}
@group(0) @binding(6) var<storage, read> sinks: array<f32>;
{% endif %}
{% endif %}
{% set width = heads * head_dim %}
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "kv.wgsl" %}
{% include "attention/span.wgsl" %}
{% if cap %}
{% include "hyperbolic.wgsl" %}
{% endif %}
{% if not split %}
{% include "cluster.wgsl" %}
{% include "activation.wgsl" %}
{% endif %}
const PARTITION = ${partition}u;
const LOWEST = -3.0e38;

var<workgroup> span: u32;
var<workgroup> query: array<vec4<f32>, ${quads}>;
var<workgroup> weights: array<f32, ${threads}>;
var<workgroup> sums: array<vec4<f32>, ${threads}>;

fn kv4(i: u32) -> vec4<f32> {
{% if kv_type == "f16" %}
  let v = kv[i];
  return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
{% else %}
  return kv[i];
{% endif %}
}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let head = workgroup.x;
  let row = workgroup.y;
  let slot = row_slot(row);
  let kv_head = head / ${heads // kv_heads}u;
  let quad = thread % ${quads}u;
  let group = thread / ${quads}u;
  if (thread == 0u) {
    span = select(0u, last_seen(row) + 1u, row < row_count());
  }
  if (thread < ${quads}u) {
    query[thread] = qkv[(row * ${row_width}u + head * ${head_dim}u) / 4u + thread] * ${scale};
  }
  let positions = workgroupUniformLoad(&span);
  let first = first_seen(max(positions, 1u) - 1u);
{% if sinks and not split %}
  var whole_max = sinks[head];
  var whole_sum = 1.0;
{% else %}
  var whole_max = LOWEST;
  var whole_sum = 0.0;
{% endif %}
  var whole = vec4<f32>(0.0);
  for (var part = first / PARTITION + workgroup.z; part * PARTITION < positions; part += ${splits}u) {
    var part_max = LOWEST;
    var part_sum = 0.0;
    var acc = vec4<f32>(0.0);
    let stop = min(positions, (part + 1u) * PARTITION);
    for (var start = max(part * PARTITION, first / ${threads}u * ${threads}u); start < stop; start += ${threads}u) {
      let key = kv_slice(slot, min(start + thread, stop - 1u), kv_head, 0u);
      var score = 0.0;
      for (var i = 0u; i < ${quads}u; i++) {
        let k = kv4(key + i);
        let q = query[i];
        score = fma(q.x, k.x, fma(q.y, k.y, fma(q.z, k.z, fma(q.w, k.w, score))));
      }
{% if cap %}
      score = ${cap} * precise_tanh(score / ${cap});
{% endif %}
      let live = start + thread < stop{% if window %} && start + thread >= first{% endif %};
      workgroupBarrier();
      weights[thread] = select(LOWEST, score, live);
      workgroupBarrier();
      var top = part_max;
      for (var i = 0u; i < ${threads}u; i++) {
        top = max(top, weights[i]);
      }
      workgroupBarrier();
      weights[thread] = select(0.0, exp(score - top), live);
      workgroupBarrier();
      let shrink = exp(part_max - top);
      part_max = top;
      part_sum *= shrink;
      acc *= shrink;
      for (var i = 0u; i < ${threads}u; i++) {
        part_sum += weights[i];
      }
      if (group < ${groups}u) {
        for (var i = group; i < min(${threads}u, stop - start); i += ${groups}u) {
{% if window %}
          if (start + i < first) {
            continue;
          }
{% endif %}
          acc = fma(vec4<f32>(weights[i]), kv4(kv_slice(slot, start + i, kv_head, 1u) + quad), acc);
        }
      }
    }
    workgroupBarrier();
    sums[thread] = acc;
    workgroupBarrier();
    var total = vec4<f32>(0.0);
    for (var g = 0u; g < ${groups}u; g++) {
      total += sums[g * ${quads}u + quad];
    }
{% if split %}
    let at = ((row * ${heads}u + head) * ${partitions}u + part - first / PARTITION) * ${quads + 1}u;
    if (group == 0u) {
      partials[at + quad] = total;
    }
    if (thread == 0u) {
      partials[at + ${quads}u] = vec4<f32>(part_max, part_sum, 0.0, 0.0);
    }
{% else %}
    let top = max(whole_max, part_max);
    let old = exp(whole_max - top);
    let fresh = exp(part_max - top);
    whole_max = top;
    whole_sum = fma(whole_sum, old, part_sum * fresh);
    whole = fma(whole, vec4<f32>(old), total * fresh);
{% endif %}
  }
{% if not split %}
  let i = head * ${quads}u + quad;
  write_activation(row, i / 8u, i % 8u, thread, group == 0u && positions > 0u, whole / whole_sum);
{% endif %}
}
