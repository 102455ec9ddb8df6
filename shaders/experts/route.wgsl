{# Which experts each row goes to, from the logits of the router.

   `choose`: the `used` largest of `experts` logits, of equal ones those of lower numbers; `choices` holds their numbers
   and shares, a row's in order of the numbers. `shares` are a softmax over `all` logits or over the `chosen` ones, or
   each logit's `sigmoid`.
   `group`: pairs of a row and an expert, sorted by expert and then row, in groups of at most `group_size`. Words of
   `groups`: 0 how many groups; from 4 on for each its expert, its first place in the order, and the end of its places
   there; then the order, a pair's number (row * used + which of the row's) at each place. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read_write> choices: array<vec2<u32>>;
{% if choose %}
@group(0) @binding(2) var<storage, read> logits: array<f32>;
{% endif %}
{% if group %}
@group(0) @binding(${3 if choose else 2}) var<storage, read_write> groups: array<u32>;
{% endif %}
{% include "state.wgsl" %}
{% if choose %}
var<workgroup> keys: array<u32, ${experts}>;
var<workgroup> powers: array<f32, ${experts}>;
var<workgroup> chosen: array<u32, ${experts}>;
var<workgroup> largest: f32;

// In order of the numbers, NaN included, so that there are always as many chosen as there should be.
fn sortable(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  return bits ^ select(0x80000000u, 0xffffffffu, bits >= 0x80000000u);
}

fn choose(row: u32, thread: u32) {
  for (var expert = thread; expert < ${experts}u; expert += ${threads}u) {
    keys[expert] = sortable(logits[row * ${logit_stride}u + expert]);
  }
  workgroupBarrier();
  for (var expert = thread; expert < ${experts}u; expert += ${threads}u) {
    let key = keys[expert];
    var rank = 0u;
    for (var other = 0u; other < ${experts}u; other++) {
      rank += u32(keys[other] > key || (keys[other] == key && other < expert));
    }
    chosen[expert] = u32(rank < ${used}u);
    if (rank == 0u) {
      largest = logits[row * ${logit_stride}u + expert];
    }
  }
  workgroupBarrier();
  for (var expert = thread; expert < ${experts}u; expert += ${threads}u) {
{% if shares == "sigmoid" %}
    // by an exponential that can't overflow
    let logit = logits[row * ${logit_stride}u + expert];
    let power = exp(-abs(logit));
    powers[expert] = select(power, 1.0, logit >= 0.0) / (1.0 + power);
{% else %}
    powers[expert] = exp(logits[row * ${logit_stride}u + expert] - largest);
{% endif %}
  }
  workgroupBarrier();
{% if shares == "sigmoid" %}
  let sum = 1.0;
{% else %}
  var sum = 0.0;
  for (var expert = 0u; expert < ${experts}u; expert++) {
    sum += ${"select(0.0, powers[expert], chosen[expert] == 1u)" if shares == "chosen" else "powers[expert]"};
  }
{% endif %}
  for (var expert = thread; expert < ${experts}u; expert += ${threads}u) {
    if (chosen[expert] == 1u) {
      var slot = 0u;
      for (var other = 0u; other < expert; other++) {
        slot += chosen[other];
      }
      choices[row * ${used}u + slot] = vec2<u32>(expert, bitcast<u32>(powers[expert] / sum${" * " ~ scale if scale != 1.0 else ""}));
    }
  }
}
{% endif %}
{% if group %}
var<workgroup> counts: array<u32, ${experts}>;

fn group(thread: u32) {
  let pairs = row_count() * ${used}u;
  for (var expert = thread; expert < ${experts}u; expert += ${threads}u) {
    var count = 0u;
    for (var pair = 0u; pair < pairs; pair++) {
      count += u32(choices[pair].x == expert);
    }
    counts[expert] = count;
  }
  workgroupBarrier();
  for (var expert = thread; expert < ${experts}u; expert += ${threads}u) {
    var first = 0u;
    var number = 0u;
    for (var other = 0u; other < expert; other++) {
      first += counts[other];
      number += (counts[other] + ${group_size - 1}u) / ${group_size}u;
    }
    let end = first + counts[expert];
    for (var start = first; start < end; start += ${group_size}u) {
      let i = 4u + 4u * number;
      groups[i] = expert;
      groups[i + 1u] = start;
      groups[i + 2u] = min(start + ${group_size}u, end);
      number++;
    }
    if (expert == ${experts - 1}u) {
      groups[0] = number;
    }
    for (var pair = 0u; pair < pairs; pair++) {
      if (choices[pair].x == expert) {
        groups[${4 + 4 * most_groups}u + first] = pair;
        first++;
      }
    }
  }
}
{% endif %}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
{% if choose and group %}
  for (var row = 0u; row < row_count(); row++) {
    choose(row, thread);
    workgroupBarrier();
  }
  storageBarrier();
  group(thread);
{% elif choose %}
  if (workgroup.y < row_count()) {
    choose(workgroup.y, thread);
  }
{% else %}
  group(thread);
{% endif %}
}
