{# Rotates queries and keys by position and puts keys and values into the paged cache. A cluster of eight threads takes a
   head, each of them four values at a time: two rotated pairs. Pairs are neighbours ("norm") or half the rotated width
   apart ("neox"). With `qk_norm` queries and keys get an RMS norm first: of each head, or, with `row_norm`, of all of a
   row's queries and of all its keys, whose squares the product before summed up. With `rotate` off they keep their
   angles.

   Angles come from two tables of cosines and sines, of position mod 256 and of position div 256: the product of two
   rotations is exact to rounding where a shader's own sine of a large angle is not. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(3) var<storage, read> tables: array<u32>;
@group(0) @binding(4) var<storage, read_write> kv: array<${"vec2<u32>" if kv_type == "f16" else "vec4<f32>"}>;
{% if rotate %}
@group(0) @binding(5) var<storage, read> angles: array<vec2<f32>>;
{% endif %}
{% if qk_norm %}
@group(0) @binding(${6 if rotate else 5}) var<storage, read> gains: array<f32>;
{% endif %}
{% if row_norm %}
@group(0) @binding(${7 if rotate else 6}) var<storage, read> squares_in: array<f32>;
{% endif %}
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "kv.wgsl" %}
{% if qk_norm %}
{% include "cluster.wgsl" %}
{% endif %}

const HEAD = ${head_dim}u;
const HALF = ${rope_dim // 2}u;

{% if rotate %}
fn rotate(pair: vec2<f32>, position: u32, i: u32) -> vec2<f32> {
  let fine = angles[(position & 255u) * HALF + i];
  let coarse = angles[(256u + (position >> 8u)) * HALF + i];
  let turn = vec2<f32>(fma(fine.x, coarse.x, -fine.y * coarse.y), fma(fine.x, coarse.y, fine.y * coarse.x));
  return vec2<f32>(fma(pair.x, turn.x, -pair.y * turn.y), fma(pair.x, turn.y, pair.y * turn.x));
}
{% endif %}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = workgroup.y;
  let head = workgroup.x * ${threads // 8}u + thread / 8u;
  let lane = thread % 8u;
  let live = row < row_count() && head < ${heads + 2 * kv_heads}u;
  let base = row * ${row_width}u + head * HEAD;
{% if qk_norm %}
  let is_query = head < ${heads}u;
  var squares = 0.0;
{% if row_norm %}
  let count = select(${kv_heads}u, ${heads}u, is_query) * HEAD;
  if (live) {
    let start = row * ${square_words}u + select(${heads * head_dim // 32}u, 0u, is_query);
    for (var i = lane; i < count / 32u; i += 8u) {
      squares += squares_in[start + i];
    }
  }
{% else %}
  let count = HEAD;
  if (live) {
    for (var i = lane; i < HEAD; i += 8u) {
      squares = fma(qkv[base + i], qkv[base + i], squares);
    }
  }
{% endif %}
  let factor = 1.0 / sqrt(cluster_sum(squares, thread) / f32(count) + ${eps});
{% endif %}
  if (!live) {
    return;
  }
  let position = row_position(row);
  let is_value = head >= ${heads + kv_heads}u;
  let kv_head = (head - ${heads}u) % ${kv_heads}u;
  let slice = kv_slice(row_slot(row), position, kv_head, select(0u, 1u, is_value));
  for (var quad = lane; quad < ${head_dim // 4}u; quad += 8u) {
{% if rotate %}
    let rotated = !is_value && 4u * quad < ${rope_dim}u;
{% else %}
    let rotated = false;
{% endif %}
    var first = 4u * quad;
    var second = first + 2u;
{% if neox %}
    if (rotated) {
      first = 2u * quad;
      second = HALF + 2u * quad;
    }
{% endif %}
    var v = vec4<f32>(qkv[base + first], qkv[base + first + 1u], qkv[base + second], qkv[base + second + 1u]);
{% if qk_norm %}
    if (!is_value) {
      let gain = ${"head * HEAD" if row_norm else "select(HEAD, 0u, is_query)"};
      v *= factor * vec4<f32>(
        gains[gain + first], gains[gain + first + 1u], gains[gain + second], gains[gain + second + 1u]);
    }
{% endif %}
    var a = v.xy;
    var b = v.zw;
{% if rotate %}
    if (rotated) {
{% if neox %}
      let low = rotate(v.xz, position, first);
      let high = rotate(v.yw, position, first + 1u);
      a = vec2<f32>(low.x, high.x);
      b = vec2<f32>(low.y, high.y);
{% else %}
      a = rotate(v.xy, position, 2u * quad);
      b = rotate(v.zw, position, 2u * quad + 1u);
{% endif %}
    }
{% endif %}
    if (head < ${heads}u) {
      qkv[base + first] = a.x;
      qkv[base + first + 1u] = a.y;
      qkv[base + second] = b.x;
      qkv[base + second + 1u] = b.y;
      continue;
    }
{% if kv_type == "f16" %}
    if (second == first + 2u) {
      kv[slice + first / 4u] = vec2<u32>(pack_half(a), pack_half(b));
    } else {
      kv[slice + first / 4u][(first / 2u) & 1u] = pack_half(a);
      kv[slice + second / 4u][(second / 2u) & 1u] = pack_half(b);
    }
{% else %}
    kv[slice + first / 4u][first & 3u] = a.x;
    kv[slice + first / 4u][(first & 3u) + 1u] = a.y;
    kv[slice + second / 4u][second & 3u] = b.x;
    kv[slice + second / 4u][(second & 3u) + 1u] = b.y;
{% endif %}
  }
}
