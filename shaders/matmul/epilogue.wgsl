{# What becomes of 32 features of a column, four in each thread of a cluster: stored, gated or activated, or added to the
   residual stream with the next norm's input written along. Every thread of the workgroup calls `finish`. #}
{% if experts == "groups" %}
{% include "experts/groups.wgsl" %}
{% else %}
fn column_count() -> u32 {
  return ${"output_count()" if gather else "row_count()"};
}

fn source_row(column: u32) -> u32 {
  return ${"output_row(column)" if gather else "column"};
}

fn result_row(column: u32) -> u32 {
  return column;
}
{% endif %}
{% if experts == "row" %}
{% include "experts/chosen.wgsl" %}
{% endif %}
{% if normed %}
{% include "norm_factor.wgsl" %}
{% endif %}
{% if epilogue == "gate" %}
{% with codec = out_codec, width = features %}
{% include "activation.wgsl" %}
{% endwith %}
{% elif epilogue == "residual_norm" %}
{% with codec = out_codec, width = features %}
{% include "normed_activation.wgsl" %}
{% endwith %}
{% elif squared %}
{% include "squares.wgsl" %}
{% endif %}
{% if cap %}

// cap * tanh(v / cap), by an exponential that can't overflow
fn soft_cap(v: vec4<f32>) -> vec4<f32> {
  let e = exp(-abs(v) * ${2 / cap});
  return ${cap} * sign(v) * (1.0 - e) / (1.0 + e);
}
{% endif %}

fn finish(column: u32, row: u32, block: u32, lane: u32, thread: u32, sums: vec4<f32>${", up_sums: vec4<f32>" if ports == 2 else ""}) {
  let first = block * 32u + 4u * lane;
  let live = column < column_count() && first < ${first_block * 32 + span}u;
  let result = result_row(column);
  var values = sums;
{% if ports == 2 %}
  var up = up_sums;
{% endif %}
{% if normed %}
  let factor = norm_factor(row);
  values *= factor;
{% if ports == 2 %}
  up *= factor;
{% endif %}
{% endif %}
{% if scaled is defined %}
  let own_factors = ${"group_expert * " ~ ports * features // 4 ~ "u + " if experts == "groups"}block * 8u + lane;
  values *= factors[own_factors];
{% if ports == 2 %}
  up *= factors[${features // 4}u + own_factors];
{% endif %}
{% endif %}
{% if bias %}
  values += bias[${out_offset // 4 if out_offset is defined else 0}u + block * 8u + lane];
{% if ports == 2 %}
  up += bias[${features // 4}u + block * 8u + lane];
{% endif %}
{% endif %}
{% if scale != 1.0 %}
  values *= ${scale};
{% endif %}
{% if cap %}
  values = soft_cap(values);
{% endif %}
{% if features % 4 %}
  values = select(vec4<f32>(0.0), values, vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(${features}u));
{% endif %}
{% if epilogue == "store" %}
  if (live) {
    out[result * ${out_stride // 4}u + ${out_offset // 4}u + block * 8u + lane] = values;
  }
{% if squared %}
  write_squares(column, ${out_offset // 32}u + block, lane, thread, live, values);
{% endif %}
{% elif epilogue == "gate" %}
  write_activation(result, block, lane, thread, live, ${gate}(values)${" * up" if ports == 2});
{% else %}
  let i = column * ${(features + 3) // 4}u + block * 8u + lane;
  if (live) {
{% if experts != "row" %}
    values += x[i];
{% endif %}
    x[i] = values;
  }
{% if epilogue == "residual_norm" %}
  write_normed(column, block, lane, thread, live, values);
{% endif %}
{% endif %}
}
{% if epilogue == "gate" %}
{% include "matmul/gates.wgsl" %}
{% endif %}
