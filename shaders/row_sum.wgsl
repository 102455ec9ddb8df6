{# Adds up over all threads of a workgroup, in an order that the number of threads decides. Needs `cluster.wgsl`. #}
{% if threads > 8 %}
var<workgroup> cluster_sums: array<f32, ${threads // 8}>;
{% endif %}

// The sum over the threads of a row, the same in all of them.
fn row_sum(sums: vec4<f32>, thread: u32) -> f32 {
  let sum = cluster_sum((sums.x + sums.y) + (sums.z + sums.w), thread);
{% if threads > 8 %}
  workgroupBarrier();
  if ((thread & 7u) == 0u) {
    cluster_sums[thread / 8u] = sum;
  }
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < ${threads // 8}u; i++) {
    total += cluster_sums[i];
  }
  return total;
{% else %}
  return sum;
{% endif %}
}
