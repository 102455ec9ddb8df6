{# Logits with what slots add to some tokens, beside the logits as they came: an invocation four of them. A slot's pairs
   of a token and what is added to it lie in order of tokens, each token once. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> biases: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> logits: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> biased: array<vec4<f32>>;
{% include "state.wgsl" %}

const UNITS = ${units}u;
const MOST = ${most}u;

// The first of the pairs from `begin` to `end` whose token is not before this one.
fn first_pair(begin: u32, end: u32, token: u32) -> u32 {
  var low = begin;
  var high = end;
  while (low < high) {
    let middle = (low + high) / 2u;
    if (biases[middle].x < token) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}

@compute @workgroup_size(${lanes})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let unit = id.x;
  let output = id.y;
  if (unit >= UNITS || output >= output_count()) {
    return;
  }
  let slot = row_slot(output_row(output));
  let begin = MOST * slot;
  let end = begin + min(slots[SLOT_WORDS * slot + 12u], MOST);
  var found = logits[output * UNITS + unit];
  for (var i = first_pair(begin, end, 4u * unit); i < end && biases[i].x < 4u * unit + 4u; i += 1u) {
    found[biases[i].x % 4u] += bitcast<f32>(biases[i].y);
  }
  biased[output * UNITS + unit] = found;
}
