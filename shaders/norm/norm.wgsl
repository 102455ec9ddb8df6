{# A norm of each row by a workgroup, written as activations; before it, what sub-layers made may be added to the row.

   Bindings: `x` and, unless the norm takes the place of x alone, `h`; with `added` terms y0, y1, ...; the gain and bias of
   the norm of the row (`gain`, `bias`) and of the norm of y0 (`post_gain`, `post_bias`). Thread t takes the groups of four
   values t, t + THREADS, ..., so that the order of reduction depends on the width alone. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
{% for name, access in bindings %}
@group(0) @binding(${loop.index}) var<storage, ${access}> ${name}: array<${"u32" if name == "h" and codec == "q8" else "vec4<f32>"}>;
{% endfor %}
{% include "state.wgsl" %}
{% include "cluster.wgsl" %}
{% if writes %}
{% include "activation.wgsl" %}
{% endif %}
const THREADS = ${threads}u;
const GROUPS = ${(width + 3) // 4}u;
{% include "row_sum.wgsl" %}

// Values of a group, zeros past the row's end.
fn inside(group: u32, values: vec4<f32>) -> vec4<f32> {
{% if width % 4 %}
  return select(vec4<f32>(0.0), values, vec4<u32>(4u * group) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(${width}u));
{% else %}
  return values;
{% endif %}
}
{% macro statistics(name, values, kind, eps) %}
{% if kind == "layer" %}
  var ${name}_sums = vec4<f32>(0.0);
  for (var i = thread; i < groups; i += THREADS) {
    ${name}_sums += inside(i, ${values});
  }
  let ${name}_mean = row_sum(${name}_sums, thread) / ${width}.0;
{% endif %}
  var ${name}_squares = vec4<f32>(0.0);
  for (var i = thread; i < groups; i += THREADS) {
    let v = inside(i, ${values}${" - " ~ name ~ "_mean" if kind == "layer"});
    ${name}_squares = fma(v, v, ${name}_squares);
  }
  let ${name}_factor = 1.0 / sqrt(row_sum(${name}_squares, thread) / ${width}.0 + ${eps});
{% endmacro %}
{% macro normed(name, values, kind, gain, bias) %}
(${values}${" - " ~ name ~ "_mean" if kind == "layer"}) * ${name}_factor * ${gain}[i]${" + " ~ bias ~ "[i]" if bias}
{%- endmacro %}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.x;
  let base = row * GROUPS;
  // threads of rows that the step lacks must still meet the others at barriers
  let groups = select(0u, GROUPS, row < row_count());
{% if added %}
{% if post %}
${statistics("post", "y0[base + i]", post.kind, post.eps)}
{% endif %}
  for (var i = thread; i < groups; i += THREADS) {
{% if post %}
    var sum = ${normed("post", "y0[base + i]", post.kind, "post_gain", "post_bias" if post.bias)};
{% else %}
    var sum = y0[base + i];
{% endif %}
{% for number in range(1, added) %}
    sum += y${number}[base + i];
{% endfor %}
    x[base + i] += inside(i, sum${"" if scale == 1.0 else " * " ~ scale});
  }
{% endif %}
{% if norm or writes %}
{% if norm %}
${statistics("x", "x[base + i]", norm.kind, norm.eps)}
{% endif %}
  for (var start = 0u; start < GROUPS; start += THREADS) {
    let i = start + thread;
    let live = i < groups;
    var values = vec4<f32>(0.0);
    if (live) {
      values = inside(i, ${normed("x", "x[base + i]", norm.kind, "gain", "bias" if norm.bias) if norm else "x[base + i]"});
    }
{% if in_place %}
    if (live) {
      x[base + i] = values;
    }
{% endif %}
{% if writes %}
    write_activation(row, i / 8u, i & 7u, thread, live, values);
{% endif %}
  }
{% endif %}
}
