{# The inner products that every matmul variant shares.

   exact (codec f32): weights are expanded to floats. Element k goes to accumulator k mod 4; every 256 elements the four
   are added up and folded into the total. All variants keep this order, so their results are the same bits.
   fast (codec q8): int8 dot products for 32 elements at a time, scaled and added in f32. #}
{% if codec == "q8" %}
{% if pairs %}
{# Without a packed dot product in hardware a multiplication of 32 bits does for two: (q0 + q2 * 2^16) * (a2 + a0 * 2^16)
   has q0 * a0 + q2 * a2 in its upper half. Nibbles are small enough for 16 elements to be added up there. #}
struct Block {
  lo_even: vec4<i32>,
  lo_odd: vec4<i32>,
  hi_even: vec4<i32>,
  hi_odd: vec4<i32>,
  scales: vec4<f32>,
}

fn even_pairs(x: vec4<u32>) -> vec4<i32> {
  let a = bitcast<vec4<i32>>(x << vec4<u32>(24u)) >> vec4<u32>(8u);
  return a + (bitcast<vec4<i32>>(x << vec4<u32>(8u)) >> vec4<u32>(24u));
}

fn odd_pairs(x: vec4<u32>) -> vec4<i32> {
  let a = bitcast<vec4<i32>>((x & vec4<u32>(0xff00u)) << vec4<u32>(16u)) >> vec4<u32>(8u);
  return a + (bitcast<vec4<i32>>(x) >> vec4<u32>(24u));
}

fn dot16(q: vec4<u32>, even: vec4<i32>, odd: vec4<i32>) -> i32 {
  let bytes = vec4<u32>(0x00ff00ffu);
  let products = bitcast<vec4<i32>>(q & bytes) * even + bitcast<vec4<i32>>((q >> vec4<u32>(8u)) & bytes) * odd;
  return ((products.x + products.y) + (products.z + products.w) + 0x8000) >> 16u;
}

fn dots(q: Quants, x: Block) -> vec2<i32> {
  return vec2<i32>(dot16(q.lo, x.lo_even, x.lo_odd), dot16(q.hi, x.hi_even, x.hi_odd));
}
{% else %}
struct Block {
  lo: vec4<u32>,
  hi: vec4<u32>,
  scales: vec4<f32>,
}

fn dot16(q: vec4<u32>, x: vec4<u32>) -> i32 {
  return dot4I8Packed(q.x, x.x) + dot4I8Packed(q.y, x.y) + dot4I8Packed(q.z, x.z) + dot4I8Packed(q.w, x.w);
}

fn dots(q: Quants, x: Block) -> vec2<i32> {
  return vec2<i32>(dot16(q.lo, x.lo), dot16(q.hi, x.hi));
}
{% endif %}
{% if share %}

// A block of a row: lanes 0 to 2 of each cluster load it and pass it to all.
fn read_block(row: u32, unit: u32, lane: u32, cluster: u32) -> Block {
  let part = a[(row * ${k // 32}u + unit) * 3u + min(lane, 2u)];
  let scales = bitcast<vec4<f32>>(shuffle4(part, cluster + 2u));
{% if pairs %}
  let even = bitcast<vec4<u32>>(even_pairs(part));
  let odd = bitcast<vec4<u32>>(odd_pairs(part));
  return Block(
    bitcast<vec4<i32>>(shuffle4(even, cluster)), bitcast<vec4<i32>>(shuffle4(odd, cluster)),
    bitcast<vec4<i32>>(shuffle4(even, cluster + 1u)), bitcast<vec4<i32>>(shuffle4(odd, cluster + 1u)), scales);
{% else %}
  return Block(shuffle4(part, cluster), shuffle4(part, cluster + 1u), scales);
{% endif %}
}
{% else %}

fn read_block(row: u32, unit: u32, lane: u32, cluster: u32) -> Block {
  let i = (row * ${k // 32}u + unit) * 3u;
  let scales = bitcast<vec4<f32>>(a[i + 2u]);
{% if pairs %}
  return Block(even_pairs(a[i]), odd_pairs(a[i]), even_pairs(a[i + 1u]), odd_pairs(a[i + 1u]), scales);
{% else %}
  return Block(a[i], a[i + 1u], scales);
{% endif %}
}
{% endif %}

fn block_product(q: Quants, s: vec4<f32>, x: Block) -> f32 {
  let d = dots(q, x);
  if (SPLIT_SCALES) {
    let products = vec2<f32>(d) * s.xz;
    return x.scales.x * (products.x + products.y) + s.y * x.scales.y + s.w * x.scales.z;
  }
  return x.scales.x * s.x * f32(d.x + d.y) + s.y * x.scales.w;
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
