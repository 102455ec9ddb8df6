{# Puts what a short convolution convolves, B * x, into the ring of the row's slot. `bcx` holds B, C and x side by side.
   It is written by a dispatch of its own, since a row also reads what the rows before it in the same plan write. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> bcx: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> ring: array<vec4<f32>>;
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "short_conv/ring.wgsl" %}

@compute @workgroup_size(${threads})
fn main(@builtin(global_invocation_id) thread: vec3<u32>) {
  let i = thread.x;
  let row = thread.y;
  if (row >= row_count() || i >= QUADS) {
    return;
  }
  let base = row * 3u * QUADS + i;
  ring[ring_row(row_slot(row), row_position(row)) * QUADS + i] = bcx[base] * bcx[base + 2u * QUADS];
}
