{# Writes an eighth-granular piece of a head's result: each lane of a cluster holds eight consecutive values, four lanes
   a block of 32. Every thread calls; lanes past the head's end write nothing. #}
fn write_head(row: u32, head: u32, eighth: u32, lane: u32, low: vec4<f32>, high: vec4<f32>) {
  let live = eighth < ${head_dim // 8}u;
{% if codec == "q8" %}
  let size = max(abs(low), abs(high));
  var largest = select(0.0, max(max(size.x, size.y), max(size.z, size.w)), live);
  largest = max(largest, subgroupShuffleXor(largest, 1u));
  largest = max(largest, subgroupShuffleXor(largest, 2u));
  let inverse = select(0.0, 127.0 / largest, largest > 0.0);
  let a = vec4<i32>(round(clamp(low * inverse, vec4<f32>(-127.0), vec4<f32>(127.0))));
  let b = vec4<i32>(round(clamp(high * inverse, vec4<f32>(-127.0), vec4<f32>(127.0))));
  let quads = a + b;
  let half = cluster_sum2(f32((quads.x + quads.y) + (quads.z + quads.w)), lane);
  let all = half + subgroupShuffleXor(half, 2u);
  if (live) {
    let scale = largest / 127.0;
    let base = (row * ${heads * head_dim // 32}u + head * ${head_dim // 32}u + eighth / 4u) * 12u;
    h[base + 2u * (eighth & 3u)] = pack4xI8(a);
    h[base + 2u * (eighth & 3u) + 1u] = pack4xI8(b);
    if ((eighth & 3u) == 0u) {
      h[base + 8u] = bitcast<u32>(scale);
      h[base + 9u] = bitcast<u32>(scale * half);
      h[base + 10u] = bitcast<u32>(scale * (all - half));
      h[base + 11u] = bitcast<u32>(scale * all);
    }
  }
{% else %}
  if (live) {
    let i = row * ${heads * head_dim // 4}u + head * ${head_dim // 4}u + 2u * eighth;
    h[i] = low;
    h[i + 1u] = high;
  }
{% endif %}
}
