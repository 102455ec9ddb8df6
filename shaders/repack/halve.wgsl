{# Rounds the f32 of a chunk to halves, a thread a word, which holds two. #}
{% include "repack/chunk.wgsl" %}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
{% include "repack/enter_row.wgsl" %}
  let at = row * shape[5] / 4u + 2u * (i % words);
  // the last word of a row of odd length has one
  let whole = 4u * (i % words) + 2u < shape[4];
  let bits = vec2<u32>(raw[at], select(0u, raw[at + 1u], whole));
  let sizes = bits & vec2<u32>(0x7fffffffu);
  if (any(sizes >= vec2<u32>(0x7f800000u))) {
    atomicMax(&flaws[0], shape[6]);
  } else if (any(sizes > vec2<u32>(0x477fe000u))) {
    // 65504 is the largest half
    atomicMax(&flaws[1], shape[6]);
  }
  plane[shape[2] + (shape[1] + row) * shape[3] + i % words] = pack2x16float(bitcast<vec2<f32>>(bits));
}
