{# Eight neighbouring threads ("a cluster") combine values; every thread of the workgroup must call.
   Sums are the same tree with and without subgroups, so results don't depend on the adapter's features. #}
{% if shuffle %}
fn cluster_max(value: f32, thread: u32) -> f32 {
  var m = max(value, subgroupShuffleXor(value, 1u));
  m = max(m, subgroupShuffleXor(m, 2u));
  return max(m, subgroupShuffleXor(m, 4u));
}

fn cluster_sum2(value: f32, thread: u32) -> f32 {
  return value + subgroupShuffleXor(value, 1u);
}

fn cluster_sum4(value: f32, thread: u32) -> f32 {
  let s = cluster_sum2(value, thread);
  return s + subgroupShuffleXor(s, 2u);
}

fn cluster_sum(value: f32, thread: u32) -> f32 {
  let s = cluster_sum4(value, thread);
  return s + subgroupShuffleXor(s, 4u);
}
{% else %}
var<workgroup> cluster_values: array<f32, ${threads}>;

fn cluster_partner(value: f32, thread: u32, distance: u32) -> f32 {
  workgroupBarrier();
  cluster_values[thread] = value;
  workgroupBarrier();
  return cluster_values[thread ^ distance];
}

fn cluster_max(value: f32, thread: u32) -> f32 {
  var m = max(value, cluster_partner(value, thread, 1u));
  m = max(m, cluster_partner(m, thread, 2u));
  return max(m, cluster_partner(m, thread, 4u));
}

fn cluster_sum2(value: f32, thread: u32) -> f32 {
  return value + cluster_partner(value, thread, 1u);
}

fn cluster_sum4(value: f32, thread: u32) -> f32 {
  let s = cluster_sum2(value, thread);
  return s + cluster_partner(s, thread, 2u);
}

fn cluster_sum(value: f32, thread: u32) -> f32 {
  let s = cluster_sum4(value, thread);
  return s + cluster_partner(s, thread, 4u);
}
{% endif %}
