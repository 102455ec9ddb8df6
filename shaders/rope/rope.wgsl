{# Rotates queries and keys by position and puts keys and values into the paged cache. A thread takes four values of a
   head: two rotated pairs. Pairs are neighbours ("norm") or half the rotated width apart ("neox").

   Angles come from two tables of cosines and sines, of position mod 256 and of position div 256: the product of two
   rotations is exact to rounding where a shader's own sine of a large angle is not. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read_write> qkv: array<f32>;
@group(0) @binding(3) var<storage, read> angles: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> tables: array<u32>;
@group(0) @binding(5) var<storage, read_write> kv: array<${"vec2<u32>" if kv_type == "f16" else "vec4<f32>"}>;
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "kv.wgsl" %}

const HEAD = ${head_dim}u;
const HALF = ${rope_dim // 2}u;

fn rotate(pair: vec2<f32>, position: u32, i: u32) -> vec2<f32> {
  let fine = angles[(position & 255u) * HALF + i];
  let coarse = angles[(256u + (position >> 8u)) * HALF + i];
  let turn = vec2<f32>(fma(fine.x, coarse.x, -fine.y * coarse.y), fma(fine.x, coarse.y, fine.y * coarse.x));
  return vec2<f32>(fma(pair.x, turn.x, -pair.y * turn.y), fma(pair.x, turn.y, pair.y * turn.x));
}

@compute @workgroup_size(${threads})
fn main(@builtin(global_invocation_id) thread: vec3<u32>) {
  let row = thread.y;
  let quad = thread.x % ${head_dim // 4}u;
  let head = thread.x / ${head_dim // 4}u;
  if (row >= row_count() || head >= ${heads + 2 * kv_heads}u) {
    return;
  }
  let position = row_position(row);
  let base = row * ${row_width}u + head * HEAD;
  let rotated = head < ${heads + kv_heads}u && 4u * quad < ${rope_dim}u;
  var first = 4u * quad;
  var second = first + 2u;
{% if neox %}
  if (rotated) {
    first = 2u * quad;
    second = HALF + 2u * quad;
  }
{% endif %}
  let v = vec4<f32>(qkv[base + first], qkv[base + first + 1u], qkv[base + second], qkv[base + second + 1u]);
  var a = v.xy;
  var b = v.zw;
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
  if (head < ${heads}u) {
    qkv[base + first] = a.x;
    qkv[base + first + 1u] = a.y;
    qkv[base + second] = b.x;
    qkv[base + second + 1u] = b.y;
    return;
  }
  let kv_head = (head - ${heads}u) % ${kv_heads}u;
  let slice = kv_slice(row_slot(row), position, kv_head, (head - ${heads}u) / ${kv_heads}u);
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
