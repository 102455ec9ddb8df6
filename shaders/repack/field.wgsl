{# Copies one field of a chunk of raw blocks into its plane, a thread a word. `granule` is the largest power of two, up to
   4, that divides the field's place and size: how many bytes can be moved at once. #}
{% include "repack/chunk.wgsl" %}

fn raw_byte(i: u32) -> u32 {
  return (raw[i >> 2u] >> (8u * (i & 3u))) & 255u;
}

fn raw_half(i: u32) -> u32 {
  return (raw[i >> 2u] >> (8u * (i & 2u))) & 0xffffu;
}

// Byte of the chunk where byte i of the field's row is.
fn place(row: u32, i: u32) -> u32 {
  return row * shape[5] + i / ${size}u * ${block_bytes}u + ${offset}u + i % ${size}u;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
{% include "repack/enter_row.wgsl" %}
  let at = 4u * (i % words);
  var value = 0u;
{% if granule == 4 %}
  value = raw[place(row, at) >> 2u];
{% elif granule == 2 %}
  value = raw_half(place(row, at));
  if (at + 2u < shape[4]) {
    value |= raw_half(place(row, at + 2u)) << 16u;
  }
{% else %}
  for (var byte = 0u; byte < min(4u, shape[4] - at); byte++) {
    value |= raw_byte(place(row, at + byte)) << (8u * byte);
  }
{% endif %}
{% if floats == "f64" %}
  // its upper half; floats that are too large for f32 count too
  let flawed = (at & 4u) != 0u && (value & 0x7fffffffu) >= 0x47f00000u;
{% elif floats == "f32" %}
  let flawed = (value & 0x7f800000u) == 0x7f800000u;
{% elif floats.startswith("f8") %}
  let not_finite = vec4<u32>(${"0x7f" if floats == "f8_e4m3" else "0x7c"}u);
  let flawed = any(((vec4<u32>(value) >> vec4<u32>(0u, 8u, 16u, 24u)) & not_finite) == not_finite);
{% elif floats %}
  let exponent = vec2<u32>(${"0x7c00" if floats == "f16" else "0x7f80"}u);
  let flawed = any((vec2<u32>(value, value >> 16u) & exponent) == exponent);
{% endif %}
{% if floats %}
  if (flawed) {
    atomicMax(&flaws[0], shape[6]);
  }
{% endif %}
  plane[shape[2] + (shape[1] + row) * shape[3] + i % words] = value;
}
