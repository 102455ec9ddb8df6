{# The embedding of a text out of its rows, by a workgroup: their mean or the first of them, scaled to length 1.

   An output names the first row of a text; how many there are follows from the last position that this row sees. Rows are
   added up in their order, so that a text's embedding is the same bits in any batch. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> embeddings: array<vec4<f32>>;
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "cluster.wgsl" %}
const THREADS = ${threads}u;
const GROUPS = ${(width + 3) // 4}u;
{% include "row_sum.wgsl" %}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let output = workgroup.x;
  let live = output < output_count();
  let first = output_row(min(output, max(output_count(), 1u) - 1u));
  let rows = ${"1u" if kind == "cls" else "min(row_sees(first) + 1u, row_count() - first)"};
  // threads of outputs that the step lacks must still meet the others at barriers
  let groups = select(0u, GROUPS, live);
  var squares = vec4<f32>(0.0);
  for (var i = thread; i < groups; i += THREADS) {
    var sum = vec4<f32>(0.0);
    for (var row = first; row < first + rows; row++) {
      sum += x[row * GROUPS + i];
    }
    let mean = sum / f32(rows);
    squares = fma(mean, mean, squares);
    embeddings[output * GROUPS + i] = mean;
  }
  let factor = 1.0 / sqrt(max(row_sum(squares, thread), 1.0e-24));
  for (var i = thread; i < groups; i += THREADS) {
    embeddings[output * GROUPS + i] *= factor;
  }
}
