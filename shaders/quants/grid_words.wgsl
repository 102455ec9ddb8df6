{# Look-up of four weights at a time: a byte for each. #}
{% include "quants/grid.wgsl" %}
fn grid_words(i: vec4<u32>) -> vec4<u32> {
  return vec4<u32>(grid_word(i.x), grid_word(i.y), grid_word(i.z), grid_word(i.w));
}
