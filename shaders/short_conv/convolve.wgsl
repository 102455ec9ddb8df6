{# C times the causal convolution over the last positions, each channel by itself; what lies before a sequence counts as
   zeros. Terms are added up from the oldest position to the row's own, then the bias, so that the sum depends on nothing
   but the position. A cluster of eight threads makes 32 channels. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> bcx: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> ring: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> taps: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> h: array<${"u32" if codec == "q8" else "vec4<f32>"}>;
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "cluster.wgsl" %}
{% include "activation.wgsl" %}
{% include "short_conv/ring.wgsl" %}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let i = workgroup.x * ${threads}u + thread;
  let row = workgroup.y;
  let live = row < row_count() && i < QUADS;
  var values = vec4<f32>(0.0);
  if (live) {
    let slot = row_slot(row);
    let position = row_position(row);
    for (var back = min(position, ${kernel - 1}u) + 1u; back > 0u; back--) {
      let age = back - 1u;
      values = fma(taps[(${kernel - 1}u - age) * QUADS + i], ring[ring_row(slot, position - age) * QUADS + i], values);
    }
    values = bcx[row * 3u * QUADS + QUADS + i] * (values + taps[${kernel}u * QUADS + i]);
  }
  write_activation(row, i / 8u, thread % 8u, thread, live, values);
}
