{# Attention of one row and the query heads of one key head, by a workgroup of one cluster of eight lanes.

   Lanes stand for eight positions while scores are made, and for eight neighbouring values of the head while values are
   added up. The positions are cut into partitions of PARTITION, each with a softmax of its own, and folded together in
   order: by the same workgroup, or, with `split`, from memory by `attention/reduce.wgsl`. The order depends on positions
   alone, so a row's result is the same bits for any number of splits and any batch. Partitions before the window are
   passed over. A sink is folded in first, as a partition of its score and of no value. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> qkv: array<f32>;
@group(0) @binding(3) var<storage, read> tables: array<u32>;
@group(0) @binding(4) var<storage, read> kv: array<${"vec4<u32>" if kv_type == "f16" else "vec4<f32>"}>;
{% if split %}
@group(0) @binding(5) var<storage, read_write> partials: array<vec4<f32>>;
{% else %}
@group(0) @binding(5) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% if sinks %}
@group(0) @binding(6) var<storage, read> sinks: array<f32>;
{% endif %}
{% endif %}
{% set threads = 8 %}
{% set chunks = (head_dim + 63) // 64 %}
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "kv.wgsl" %}
{% include "cluster.wgsl" %}
{% include "attention/span.wgsl" %}
{% if cap %}
{% include "hyperbolic.wgsl" %}
{% endif %}
{% if not split %}
{% include "attention/output.wgsl" %}
{% endif %}
const PARTITION = ${partition}u;
const LOWEST = -3.0e38;

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let kv_head = workgroup.x;
  let row = workgroup.y;
  if (row >= row_count()) {
    return;
  }
  let seen = last_seen(row);
  let first = first_seen(seen);
  let slot = row_slot(row);
{% for g in range(group) %}{% for e in range(head_dim // 8) %}
  let q${g}_${e} = qkv[row * ${row_width}u + (kv_head * ${group}u + ${g}u) * ${head_dim}u + ${8 * e}u + lane] * ${scale};
{% endfor %}{% endfor %}
{% for g in range(group) %}
{% if sinks and not split %}
  var whole_max${g} = sinks[kv_head * ${group}u + ${g}u];
  var whole_sum${g} = 1.0;
{% else %}
  var whole_max${g} = LOWEST;
  var whole_sum${g} = 0.0;
{% endif %}
{% for c in range(2 * chunks) %}
  var whole${g}_${c} = vec4<f32>(0.0);
{% endfor %}{% endfor %}
  for (var part = first / PARTITION + workgroup.z; part * PARTITION <= seen; part += ${splits}u) {
{% for g in range(group) %}
    var max${g} = LOWEST;
    var sum${g} = 0.0;
{% for c in range(2 * chunks) %}
    var acc${g}_${c} = vec4<f32>(0.0);
{% endfor %}{% endfor %}
    let last = min(seen, part * PARTITION + PARTITION - 1u);
    for (var start = max(part * PARTITION, first / 8u * 8u); start <= last; start += 8u) {
      let live = start + lane <= last{% if window %} && start + lane >= first{% endif %};
      let key = kv_slice(slot, min(start + lane, last), kv_head, 0u);
{% for g in range(group) %}
      var score${g} = 0.0;
{% endfor %}
{% for e in range(head_dim // 8) %}
      {
{% if kv_type == "f16" %}
        let v = kv[key / 2u + ${e}u];
        let k0 = unpack2x16float(v.x);
        let k1 = unpack2x16float(v.y);
        let k2 = unpack2x16float(v.z);
        let k3 = unpack2x16float(v.w);
{% set k = ["k0.x", "k0.y", "k1.x", "k1.y", "k2.x", "k2.y", "k3.x", "k3.y"] %}
{% else %}
        let k0 = kv[key + ${2 * e}u];
        let k1 = kv[key + ${2 * e + 1}u];
{% set k = ["k0.x", "k0.y", "k0.z", "k0.w", "k1.x", "k1.y", "k1.z", "k1.w"] %}
{% endif %}
{% for g in range(group) %}{% for i in range(8) %}
        score${g} = fma(subgroupShuffle(q${g}_${e}, ${i}u), ${k[i]}, score${g});
{% endfor %}{% endfor %}
      }
{% endfor %}
{% for g in range(group) %}
{% if cap %}
      score${g} = ${cap} * precise_tanh(score${g} / ${cap});
{% endif %}
      let masked${g} = select(LOWEST, score${g}, live);
      let top${g} = max(max${g}, cluster_max(masked${g}, lane));
      let shrink${g} = exp(max${g} - top${g});
      let p${g} = select(0.0, exp(masked${g} - top${g}), live);
      max${g} = top${g};
      sum${g} = fma(sum${g}, shrink${g}, p${g});
{% for c in range(2 * chunks) %}
      acc${g}_${c} *= shrink${g};
{% endfor %}{% endfor %}
{% for j in range(8) %}
      if (start + ${j}u <= last{% if window %} && start + ${j}u >= first{% endif %}) {
        let value = kv_slice(slot, start + ${j}u, kv_head, 1u);
{% for c in range(chunks) %}
{% if kv_type == "f16" %}
        let v${c} = kv[value / 2u + min(${8 * c}u + lane, ${head_dim // 8 - 1}u)];
        let low${c} = vec4<f32>(unpack2x16float(v${c}.x), unpack2x16float(v${c}.y));
        let high${c} = vec4<f32>(unpack2x16float(v${c}.z), unpack2x16float(v${c}.w));
{% else %}
        let low${c} = kv[value + 2u * min(${8 * c}u + lane, ${head_dim // 8 - 1}u)];
        let high${c} = kv[value + 2u * min(${8 * c}u + lane, ${head_dim // 8 - 1}u) + 1u];
{% endif %}
{% endfor %}
{% for g in range(group) %}
        {
          let p = vec4<f32>(subgroupShuffle(p${g}, ${j}u));
{% for c in range(chunks) %}
          acc${g}_${2 * c} = fma(p, low${c}, acc${g}_${2 * c});
          acc${g}_${2 * c + 1} = fma(p, high${c}, acc${g}_${2 * c + 1});
{% endfor %}
        }
{% endfor %}
      }
{% endfor %}
    }
{% for g in range(group) %}
    {
      let sum = cluster_sum(sum${g}, lane);
{% if split %}
      let at = ((row * ${heads}u + kv_head * ${group}u + ${g}u) * ${partitions}u + part - first / PARTITION) * ${head_dim // 4 + 1}u;
{% for c in range(chunks) %}
      if (${64 * c}u + 8u * lane < ${head_dim}u) {
        partials[at + 2u * (${8 * c}u + lane)] = acc${g}_${2 * c};
        partials[at + 2u * (${8 * c}u + lane) + 1u] = acc${g}_${2 * c + 1};
      }
{% endfor %}
      if (lane == 0u) {
        partials[at + ${head_dim // 4}u] = vec4<f32>(max${g}, sum, 0.0, 0.0);
      }
{% else %}
      let top = max(whole_max${g}, max${g});
      let old = exp(whole_max${g} - top);
      let fresh = exp(max${g} - top);
      whole_max${g} = top;
      whole_sum${g} = fma(whole_sum${g}, old, sum * fresh);
{% for c in range(2 * chunks) %}
      whole${g}_${c} = fma(whole${g}_${c}, vec4<f32>(old), acc${g}_${c} * fresh);
{% endfor %}
{% endif %}
    }
{% endfor %}
  }
{% if not split %}
{% for g in range(group) %}{% for c in range(chunks) %}
  write_head(row, kv_head * ${group}u + ${g}u, ${8 * c}u + lane, lane, whole${g}_${2 * c} / whole_sum${g}, whole${g}_${2 * c + 1} / whole_sum${g});
{% endfor %}{% endfor %}
{% endif %}
}
