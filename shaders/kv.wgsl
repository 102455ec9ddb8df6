{# Where a key or value lies in the paged cache of a layer: blocks of KV_BLOCK positions, in each the keys and then
   the values of every head. Needs `state.wgsl` and the binding `tables`: a row of block numbers for each slot. A layer with
   a window may have `ring_blocks` for each slot instead, which are used in turns. #}
const KV_BLOCK = ${kv_block}u;

// Index of the first four values of a head, in units of four; part 0 is the key, 1 the value.
fn kv_slice(slot: u32, position: u32, kv_head: u32, part: u32) -> u32 {
{% if ring_blocks %}
  let block = slot * ${ring_blocks}u + position / KV_BLOCK % ${ring_blocks}u;
{% else %}
  let block = tables[slot * ${table_width}u + position / KV_BLOCK];
{% endif %}
  return (((block * 2u + part) * ${kv_heads}u + kv_head) * KV_BLOCK + position % KV_BLOCK) * ${head_dim // 4}u;
}

// Halves saturate instead of becoming infinite.
fn pack_half(v: vec2<f32>) -> u32 {
  return pack2x16float(clamp(v, vec2<f32>(-65504.0), vec2<f32>(65504.0)));
}
