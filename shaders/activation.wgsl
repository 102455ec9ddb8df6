{# Writes activations in a codec. A cluster of eight threads holds 32 consecutive values of a row, four a thread; every
   thread of the workgroup must call, `live` tells whether its values count. The binding is `h`.

   f32: rows of vec4<f32>. q8: for 32 values 12 words: int8 quants (8), scale, scale * sum of the first and of the last
   16 quants, and of all (which the offsets of the weights are multiplied with). #}
{% if codec == "q8" %}
fn write_activation(row: u32, block: u32, lane: u32, thread: u32, live: bool, values: vec4<f32>) {
  let size = abs(values);
  let largest = cluster_max(max(max(size.x, size.y), max(size.z, size.w)), thread);
  let scale = largest / 127.0;
  let inverse = select(0.0, 127.0 / largest, largest > 0.0);
  let quants = vec4<i32>(round(clamp(values * inverse, vec4<f32>(-127.0), vec4<f32>(127.0))));
  let sum = f32((quants.x + quants.y) + (quants.z + quants.w));
  let half = cluster_sum4(sum, thread);
  let all = cluster_sum(sum, thread);
  if (live) {
    let base = (row * ${width // 32}u + block) * 12u;
    h[base + lane] = pack4xI8(quants);
    if (lane == 0u) {
      h[base + 8u] = bitcast<u32>(scale);
      h[base + 9u] = bitcast<u32>(scale * half);
      h[base + 10u] = bitcast<u32>(scale * (all - half));
      h[base + 11u] = bitcast<u32>(scale * all);
    }
  }
}
{% else %}
fn write_activation(row: u32, block: u32, lane: u32, thread: u32, live: bool, values: vec4<f32>) {
  if (live) {
    h[row * ${(width + 3) // 4}u + block * 8u + lane] = values;
  }
}
{% endif %}
