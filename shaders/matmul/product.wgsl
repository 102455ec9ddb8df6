{# The inner products that every matmul variant shares.

   exact (codec f32): weights are expanded to floats. Element k goes to accumulator k mod 4; every 256 elements the four
   are added up and folded into the total. All variants keep this order, so their results are the same bits.
   fast (codec q8): int8 dot products for 32 elements at a time, scaled and added in f32. #}
{% if codec == "q8" %}
struct Block {
  lo: vec4<u32>,
  hi: vec4<u32>,
  scales: vec4<f32>,
}

fn read_block(row: u32, unit: u32) -> Block {
  let i = (row * ${k // 32}u + unit) * 3u;
  return Block(a[i], a[i + 1u], bitcast<vec4<f32>>(a[i + 2u]));
}

fn dot16(q: vec4<u32>, x: vec4<u32>) -> i32 {
  return dot4I8Packed(q.x, x.x) + dot4I8Packed(q.y, x.y) + dot4I8Packed(q.z, x.z) + dot4I8Packed(q.w, x.w);
}

fn block_product(q: Quants, s: vec4<f32>, x: Block) -> f32 {
  if (SPLIT_SCALES) {
    let products = vec2<f32>(f32(dot16(q.lo, x.lo)), f32(dot16(q.hi, x.hi))) * s.xz;
    return x.scales.x * (products.x + products.y) + s.y * x.scales.y + s.w * x.scales.z;
  }
  return x.scales.x * s.x * f32(dot16(q.lo, x.lo) + dot16(q.hi, x.hi)) + s.y * x.scales.w;
}
{% else %}
{% if not quant_is_float %}
{% include "quants/unit_values.wgsl" %}
{% endif %}

fn fold(sums: vec4<f32>) -> f32 {
  return (sums.x + sums.y) + (sums.z + sums.w);
}
{% endif %}
{% if share %}

fn shuffle4(v: vec4<u32>, lane: u32) -> vec4<u32> {
  return vec4<u32>(
    subgroupShuffle(v.x, lane), subgroupShuffle(v.y, lane), subgroupShuffle(v.z, lane), subgroupShuffle(v.w, lane));
}
{% endif %}
