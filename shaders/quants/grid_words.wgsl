{# Look-up of four weights at a time: a byte for each. #}
fn grid_words(i: vec4<u32>) -> vec4<u32> {
  return vec4<u32>(word(GRID + i.x), word(GRID + i.y), word(GRID + i.z), word(GRID + i.w));
}
