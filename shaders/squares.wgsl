{# Sums of squares of 32 values each, of which an RMS norm's factor is made. Binding: `squares`. #}
fn write_squares(row: u32, block: u32, lane: u32, thread: u32, live: bool, values: vec4<f32>) {
  let kept = select(vec4<f32>(0.0), values, live);
  let pairs = fma(kept.yw, kept.yw, kept.xz * kept.xz);
  let sum = cluster_sum(pairs.x + pairs.y, thread);
  if (live && lane == 0u) {
    squares[row * ${square_words}u + block] = sum;
  }
}
