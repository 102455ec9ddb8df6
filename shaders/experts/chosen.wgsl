{# For rows that go through their experts one by one: what these give is added up in order of the experts' numbers,
   starting from the residual stream, so that parts of a weight can follow each other. #}
fn residual(column: u32, block: u32, lane: u32) -> vec4<f32> {
  if (block * 32u + 4u * lane < ${first_block * 32 + span}u) {
    return x[column * ${(features + 3) // 4}u + block * 8u + lane];
  }
  return vec4<f32>(0.0);
}
