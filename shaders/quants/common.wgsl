{# The weights' binding must be `w: array<vec4<u32>>`. #}
struct Quants {
  lo: vec4<u32>,
  hi: vec4<u32>,
}

{% for name, start, row in planes %}
const ${name} = ${start}u;
const ${name}_ROW = ${row}u;
{% endfor %}

fn word(i: u32) -> u32 {
  return w[i >> 2u][i & 3u];
}

fn byte_at(plane: u32, i: u32) -> u32 {
  return (word(plane + (i >> 2u)) >> (8u * (i & 3u))) & 255u;
}

fn half_at(plane: u32, i: u32) -> u32 {
  return (word(plane + (i >> 1u)) >> (16u * (i & 1u))) & 0xffffu;
}

fn half_float(plane: u32, i: u32) -> f32 {
  let pair = unpack2x16float(word(plane + (i >> 1u)));
  return select(pair.x, pair.y, (i & 1u) == 1u);
}

{% include "quants/" ~ quant ~ ".wgsl" %}
