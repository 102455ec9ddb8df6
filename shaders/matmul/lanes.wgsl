{# results[row, feature] = sum over k of weights[feature, k] * activations[row, k], a thread for each four features.

   A workgroup of 8 x `columns` threads makes 32 features for `columns * tile` rows. Each thread runs along K by itself;
   with `share`, a lane loads one part of the activations and shuffles it to its seven neighbours. With `ports` = 2 it
   makes gate and up features together. For experts see `experts/groups.wgsl` and `experts/chosen.wgsl`.

   A single column takes two units of a superblock at a time, so that what both read is loaded once. #}
{% set threads = 8 * columns %}
{% set expert_feature = "base + " if experts else "" %}
{% include "matmul/bindings.wgsl" %}
{% include "cluster.wgsl" %}
{% include "matmul/product.wgsl" %}
{% include "matmul/epilogue.wgsl" %}
{% macro products(t, p) %}
{% for v in range(4) %}${"" if v == 0 else ", "}total${t}_${p}_${v}{% if codec == "f32" %} + fold(sums${t}_${p}_${v}){% endif %}{% endfor %}
{% endmacro %}

@compute @workgroup_size(8, ${columns})
fn main(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
{% if share %}
  @builtin(subgroup_invocation_id) subgroup_lane: u32,
{% endif %}
) {
  let lane = local.x;
  let block = workgroup.x + ${grid_x}u * workgroup.z;
{% if experts == "groups" %}
{% include "experts/enter_group.wgsl" %}
  let first_column = group.y + local.y * ${tile}u;
{% else %}
  let first_column = (workgroup.y * ${columns}u + local.y) * ${tile}u;
{% endif %}
  let feature = block * 32u + 4u * lane;
  // a plan may have more room than rows; what is left over must still meet the others at barriers
  let used = first_column < column_count();
  let cluster = ${"subgroup_lane & ~7u" if share else "0u"};
{% if experts == "row" %}
{% include "experts/each_chosen.wgsl" %}
  let row0 = pair;
{% else %}
{% for t in range(tile) %}
  let row${t} = source_row(min(first_column + ${t}u, column_count() - 1u));
{% endfor %}
{% endif %}
{% for t in range(tile) %}{% for p in range(ports) %}{% for v in range(4) %}
  var total${t}_${p}_${v} = 0.0;
{% if codec == "f32" %}
  var sums${t}_${p}_${v} = vec4<f32>(0.0);
{% endif %}
{% endfor %}{% endfor %}{% endfor %}
{% if codec == "q8" %}
{% set step = 2 if superblocks and columns * tile == 1 else 1 %}
  for (var unit = 0u; unit < select(0u, ${k // 32}u, used); unit += ${step}u) {
{% for odd in range(step) %}
{% for t in range(tile) %}
    let x${t}_${odd} = read_block(row${t}, unit + ${odd}u, lane, cluster);
{% endfor %}
{% for p in range(ports) %}{% for v in range(4) %}
    {
      let f = ${expert_feature}min(feature + ${v}u, ${span - 1}u) + ${p * part}u;
      let q = quants(f, unit, ${odd}u);
      let s = scales(f, unit, ${odd}u);
{% for t in range(tile) %}
      total${t}_${p}_${v} += block_product(q, s, x${t}_${odd});
{% endfor %}
    }
{% endfor %}{% endfor %}
{% endfor %}
  }
{% elif quant_is_float and (k % 32 or not share) %}
  for (var group = 0u; group < select(0u, ${(k + 3) // 4}u, used); group++) {
{% for t in range(tile) %}
    let x${t} = a[row${t} * ${(k + 3) // 4}u + group];
{% endfor %}
{% for p in range(ports) %}{% for v in range(4) %}
    {
      let x = values(${expert_feature}min(feature + ${v}u, ${span - 1}u) + ${p * part}u, 0u, group);
{% for t in range(tile) %}
      sums${t}_${p}_${v} = fma(x, x${t}, sums${t}_${p}_${v});
{% endfor %}
    }
{% endfor %}{% endfor %}
    if ((group & 63u) == 63u) {
{% for t in range(tile) %}{% for p in range(ports) %}{% for v in range(4) %}
      total${t}_${p}_${v} += fold(sums${t}_${p}_${v});
      sums${t}_${p}_${v} = vec4<f32>(0.0);
{% endfor %}{% endfor %}{% endfor %}
    }
  }
{% else %}
  for (var unit = 0u; unit < select(0u, ${k // 32}u, used); unit++) {
{% for t in range(tile) %}
{% if share %}
    let part${t} = bitcast<vec4<u32>>(a[row${t} * ${k // 4}u + unit * 8u + lane]);
{% for i in range(8) %}
    let x${t}_${i} = bitcast<vec4<f32>>(shuffle4(part${t}, cluster + ${i}u));
{% endfor %}
{% else %}
{% for i in range(8) %}
    let x${t}_${i} = a[row${t} * ${k // 4}u + unit * 8u + ${i}u];
{% endfor %}
{% endif %}
{% endfor %}
{% for p in range(ports) %}{% for v in range(4) %}
    {
      let f = ${expert_feature}min(feature + ${v}u, ${span - 1}u) + ${p * part}u;
{% if not quant_is_float %}
      let q = quants(f, unit, 0u);
      let s = scales(f, unit, 0u);
{% endif %}
{% for i in range(8) %}
{% if quant_is_float %}
      let w${i} = values(f, unit * 8u, ${i}u);
{% else %}
      let w${i} = weight4(q.${"lo" if i < 4 else "hi"}.${"xyzw"[i % 4]}, s.${"x" if i < 4 else "z"}, s.${"y" if i < 4 else "w"});
{% endif %}
{% for t in range(tile) %}
      sums${t}_${p}_${v} = fma(w${i}, x${t}_${i}, sums${t}_${p}_${v});
{% endfor %}
{% endfor %}
    }
{% endfor %}{% endfor %}
    if ((unit & 7u) == 7u) {
{% for t in range(tile) %}{% for p in range(ports) %}{% for v in range(4) %}
      total${t}_${p}_${v} += fold(sums${t}_${p}_${v});
      sums${t}_${p}_${v} = vec4<f32>(0.0);
{% endfor %}{% endfor %}{% endfor %}
    }
  }
{% endif %}
{% if experts == "row" %}
    sum = fma(share, vec4<f32>(${products(0, 0)}), sum);
  }
  finish(column, column, block + ${first_block}u, lane, thread, sum);
{% else %}
{% for t in range(tile) %}
  finish(first_column + ${t}u, row${t}, block + ${first_block}u, lane, thread,
{% for p in range(ports) %}
    vec4<f32>(${products(t, p)})${"," if not loop.last else ""}
{% endfor %}
  );
{% endfor %}
{% endif %}
}
