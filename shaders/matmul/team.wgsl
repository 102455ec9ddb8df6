{# The products of `matmul/lanes.wgsl` with K shared out: `team` neighbouring threads make one feature, so that they read
   neighbouring memory; for few columns on adapters that have threads to spare.

   exact: a thread takes whole runs of 256 elements and the runs are folded in order, which keeps the order of reduction.
   fast: a thread takes every `team`-th unit. #}
{% set threads = 32 * team %}
{% include "matmul/bindings.wgsl" %}
{% include "cluster.wgsl" %}
{% include "matmul/product.wgsl" %}
{% include "matmul/epilogue.wgsl" %}
{% set runs = (k + 255) // 256 if codec == "f32" else team %}
var<workgroup> parts: array<f32, ${32 * ports * runs}>;

fn part_total(port: u32, feature: u32) -> f32 {
  var total = 0.0;
  for (var i = 0u; i < ${runs}u; i++) {
    total += parts[(port * 32u + feature) * ${runs}u + i];
  }
  return total;
}

fn part_total4(port: u32, lane: u32) -> vec4<f32> {
  return vec4<f32>(
    part_total(port, 4u * lane), part_total(port, 4u * lane + 1u),
    part_total(port, 4u * lane + 2u), part_total(port, 4u * lane + 3u));
}

{# In one dimension: there are adapters whose subgroups never span two rows of a workgroup, and `finish` wants eight lanes. #}
@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let member = thread % ${team}u;
  let made = thread / ${team}u;
  let block = workgroup.x + ${grid_x}u * workgroup.z;
  let lane = thread & 7u;
{% if experts == "groups" %}
{% include "experts/enter_group.wgsl" %}
{% endif %}
  let feature = ${"base + " if experts == "groups" else ""}min(block * 32u + made, ${span - 1}u);
{% if experts == "row" %}
{% include "experts/each_chosen.wgsl" %}
    let row = pair;
{% else %}
  for (var t = 0u; t < ${tile}u; t++) {
    let column = ${"group.y" if experts == "groups" else "workgroup.y * " ~ tile ~ "u"} + t;
    let row = source_row(min(column, max(column_count(), 1u) - 1u));
{% endif %}
{% for p in range(ports) %}
    {
      let f = ${"base + " if experts == "row" else ""}feature + ${p * part}u;
{% if codec == "q8" %}
      var total = 0.0;
      for (var unit = member; unit < ${k // 32}u; unit += ${team}u) {
        total += block_product(quants(f, unit, 0u), scales(f, unit, 0u), read_block(row, unit, 0u, 0u));
      }
      parts[(${p * 32}u + made) * ${runs}u + member] = total;
{% else %}
      for (var run = member; run < ${runs}u; run += ${team}u) {
        var sums = vec4<f32>(0.0);
{% if quant_is_float %}
        for (var group = run * 64u; group < min(run * 64u + 64u, ${(k + 3) // 4}u); group++) {
          sums = fma(values(f, 0u, group), a[row * ${(k + 3) // 4}u + group], sums);
        }
{% else %}
        for (var unit = run * 8u; unit < min(run * 8u + 8u, ${k // 32}u); unit++) {
          let q = quants(f, unit, 0u);
          let s = scales(f, unit, 0u);
          let x = row * ${k // 4}u + unit * 8u;
{% for i in range(8) %}
          sums = fma(weight4(q.${"lo" if i < 4 else "hi"}.${"xyzw"[i % 4]}, s.${"x" if i < 4 else "z"}, s.${"y" if i < 4 else "w"}), a[x + ${i}u], sums);
{% endfor %}
        }
{% endif %}
        parts[(${p * 32}u + made) * ${runs}u + run] = fold(sums);
      }
{% endif %}
    }
{% endfor %}
    workgroupBarrier();
{% if experts == "row" %}
    sum = fma(share, part_total4(0u, lane), sum);
    workgroupBarrier();
  }
  finish(select(0xffffffffu, column, thread < 8u), column, block + ${first_block}u, lane, thread, sum);
{% else %}
    finish(select(0xffffffffu, column, thread < 8u), row, block + ${first_block}u, lane, thread,
{% for p in range(ports) %}
      part_total4(${p}u, lane)${"," if not loop.last else ""}
{% endfor %}
    );
    workgroupBarrier();
  }
{% endif %}
}
