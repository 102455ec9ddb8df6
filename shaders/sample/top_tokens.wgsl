{# How likely the token was that an output's slot has sampled, and which tokens were likeliest: a workgroup an output.
   Words of a result: 0 the token, 1 its logit, 2 the largest logit, 3 the sum over the vocabulary of exp(logit -
   largest); then the likeliest tokens, each with its logit, those of equal logits in order of tokens, and NO_TOKEN
   where there is none. Outputs whose slots don't ask for it have the token alone.

   Sums are made in an order that the vocabulary alone decides. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> found: array<u32>;
{% include "state.wgsl" %}
{% include "sample/key.wgsl" %}

const MOST = ${most}u;
const WORDS = ${words}u;
const NO_TOKEN = 0xffffffffu;

// Each lane's likeliest tokens with their keys, the best first; empty places have key 0.
var<workgroup> keys: array<u32, ${lanes * most}>;
var<workgroup> tokens: array<u32, ${lanes * most}>;
var<workgroup> tops: array<u32, LANES>;
var<workgroup> sums: array<f32, LANES>;
var<workgroup> heads: array<u32, LANES>;

// Puts a token into a list of `count`, behind those with the same key, which came before; returns the last key.
fn enter(first: u32, count: u32, key: u32, token: u32) -> u32 {
  var at = count - 1u;
  while (at > 0u && keys[first + at - 1u] < key) {
    keys[first + at] = keys[first + at - 1u];
    tokens[first + at] = tokens[first + at - 1u];
    at -= 1u;
  }
  keys[first + at] = key;
  tokens[first + at] = token;
  return keys[first + count - 1u];
}

// Writes the best `count` of all lists.
fn merge(at: u32, count: u32) {
  for (var place = 0u; place < count; place += 1u) {
    var key = 0u;
    var token = NO_TOKEN;
    var best = 0u;
    for (var i = 0u; i < LANES; i += 1u) {
      if (heads[i] < count) {
        let entry = MOST * i + heads[i];
        if (keys[entry] > key || (keys[entry] == key && tokens[entry] < token)) {
          key = keys[entry];
          token = tokens[entry];
          best = i;
        }
      }
    }
    heads[best] += 1u;
    found[at + 2u * place] = token;
    found[at + 2u * place + 1u] = select(bitcast<u32>(logit_of(key)), 0u, key == 0u);
  }
}

@compute @workgroup_size(${lanes})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let output = workgroup.x;
  if (output >= output_count()) {
    return;
  }
  let slot = SLOT_WORDS * row_slot(output_row(output));
  let at = WORDS * output;
  let token = slots[slot];
  if (lane == 0u) {
    found[at] = token;
  }
  if ((slots[slot + 11u] & 2u) == 0u) {
    return;
  }
  let count = min(slots[slot + 13u], MOST);
  let row = output * UNITS;
  for (var i = 0u; i < count; i += 1u) {
    keys[MOST * lane + i] = 0u;
    tokens[MOST * lane + i] = NO_TOKEN;
  }
  heads[lane] = 0u;
  var best = vec4<u32>(0u);
  var last = select(0u, 0xffffffffu, count == 0u);
  for (var unit = lane; unit < UNITS; unit += LANES) {
    let unit_key = unit_keys(unit, logits[row + unit]);
    best = max(best, unit_key);
    if (any(unit_key > vec4<u32>(last))) {
      for (var i = 0u; i < 4u; i += 1u) {
        if (unit_key[i] > last) {
          last = enter(MOST * lane, count, unit_key[i], 4u * unit + i);
        }
      }
    }
  }
  tops[lane] = max(max(best.x, best.y), max(best.z, best.w));
  workgroupBarrier();
  var top_key = 1u;
  for (var i = 0u; i < LANES; i += 1u) {
    top_key = max(top_key, tops[i]);
  }
  let top = logit_of(top_key);
  var sum = vec4<f32>(0.0);
  for (var unit = lane; unit < UNITS; unit += LANES) {
    let inside = vec4<u32>(4u * unit) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(VOCAB);
    let values = bitcast<vec4<f32>>(logits[row + unit]);
    sum += select(vec4<f32>(0.0), exp(values - top), inside);
  }
  sums[lane] = (sum.x + sum.y) + (sum.z + sum.w);
  workgroupBarrier();
  if (lane == 0u) {
    var total = 0.0;
    for (var i = 0u; i < LANES; i += 1u) {
      total += sums[i];
    }
    let own = min(token, VOCAB - 1u);
    found[at + 1u] = logits[row + own / 4u][own % 4u];
    found[at + 2u] = bitcast<u32>(top);
    found[at + 3u] = bitcast<u32>(total);
    merge(at + 4u, count);
  }
}
