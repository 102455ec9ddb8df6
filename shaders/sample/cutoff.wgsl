{# The lowest key that is still allowed. Needs `sample/logit.wgsl` and the bindings `logits` and `peaks`.

   Each pass adds up, for sixteen evenly spaced keys at once, what lies at or above them, and goes on in the sixteenth
   where the goal is crossed; runs whose peak is too low are left out. Sums are made in an order that depends on the row
   alone. #}
// What is added up: 1 for every run by its peak, 1 for every logit, or its softmax weight at temperature 1.
const RUNS_ABOVE = 0u;
const LOGITS_ABOVE = 1u;
const MASS_ABOVE = 2u;

var<workgroup> tally: array<u32, LANES>;
var<workgroup> listed_count: u32;
var<workgroup> listed_runs: array<u32, RUNS>;
var<workgroup> lane_sums: array<vec4<f32>, 4u * LANES>;
var<workgroup> sums: array<vec4<f32>, 4>;

// Softmax weights beside the top logit's, which is 1; meaningless for logits with key 0. The bounds keep infinities
// away from arithmetic and change no result: exp(-104) is 0.
fn weights(bits: vec4<u32>, top: f32, temperature: f32) -> vec4<f32> {
  return exp(max((min(bitcast<vec4<f32>>(bits), vec4<f32>(LARGEST)) - top) / temperature, vec4<f32>(-104.0)));
}

// Lists the runs with a key of at least `low`, in order; returns how many they are.
fn gather(output: u32, low: u32, lane: u32) -> u32 {
  let share = ${(peak_units + lanes - 1) // lanes}u;
  let begin = min(lane * share, PEAK_UNITS);
  let end = min(begin + share, PEAK_UNITS);
  var found = 0u;
  for (var unit = begin; unit < end; unit += 1u) {
    let above = peaks[output * PEAK_UNITS + unit] >= vec4<u32>(low);
    found += dot(vec4<u32>(above), vec4<u32>(1u));
  }
  tally[lane] = found;
  workgroupBarrier();
  if (lane == 0u) {
    var before = 0u;
    for (var i = 0u; i < LANES; i += 1u) {
      let own = tally[i];
      tally[i] = before;
      before += own;
    }
    listed_count = before;
  }
  workgroupBarrier();
  var at = tally[lane];
  for (var unit = begin; unit < end; unit += 1u) {
    let above = peaks[output * PEAK_UNITS + unit] >= vec4<u32>(low);
    for (var i = 0u; i < 4u; i += 1u) {
      if (above[i]) {
        listed_runs[at] = 4u * unit + i;
        at += 1u;
      }
    }
  }
  return workgroupUniformLoad(&listed_count);
}

fn reached(keys: vec4<u32>, found: vec4<f32>, high: u32, wanted: f32) -> vec4<bool> {
  return (keys < vec4<u32>(high)) & (found >= vec4<f32>(wanted));
}

// The largest key, from `start` to `top`, at or above which there is `goal`, or with MASS_ABOVE that part of what there
// is from `base`; `start` where there is none. With RUNS_ABOVE it may be a little lower.
fn cutoff(output: u32, lane: u32, what: u32, top: u32, base: u32, start: u32, goal: f32) -> u32 {
  let slack = select(1u, 0xffffu, what == RUNS_ABOVE);
  let top_logit = logit_of(top);
  var low = start;
  var high = top + 1u;
  var above_high = 0.0;
  var wanted = goal;
  var runs_listed = 0u;
  for (var pass_number = 0u; high - low > slack; pass_number += 1u) {
    let first = pass_number == 0u;
    let bottom = select(low, base, first);
    let step = (high - low + 15u) / 16u;
    let steps = step * vec4<u32>(0u, 1u, 2u, 3u);
    let at0 = vec4<u32>(bottom, low + steps.yzw);
    let at1 = low + 4u * step + steps;
    let at2 = low + 8u * step + steps;
    let at3 = low + 12u * step + steps;
    if (what != RUNS_ABOVE && (first || runs_listed > LANES)) {
      runs_listed = gather(output, bottom, lane);
    }
    let units = select(runs_listed * RUN_UNITS, PEAK_UNITS, what == RUNS_ABOVE);
    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();
    for (var i = lane; i < units; i += LANES) {
      var bits = vec4<u32>();
      var keys = vec4<u32>();
      if (what == RUNS_ABOVE) {
        keys = peaks[output * PEAK_UNITS + i];
      } else {
        let unit = listed_runs[i / RUN_UNITS] * RUN_UNITS + i % RUN_UNITS;
        if (unit < UNITS) {
          bits = logits[output * UNITS + unit];
          keys = unit_keys(unit, bits);
        }
      }
      let inside = (keys >= vec4<u32>(bottom)) & (keys < vec4<u32>(high));
      if (!any(inside)) {
        continue;
      }
      var amounts = vec4<f32>(1.0);
      if (what == MASS_ABOVE) {
        amounts = weights(bits, top_logit, 1.0);
      }
      amounts = select(vec4<f32>(), amounts, inside);
      for (var j = 0u; j < 4u; j += 1u) {
        let amount = vec4<f32>(amounts[j]);
        let key = vec4<u32>(keys[j]);
        sum0 += select(vec4<f32>(), amount, key >= at0);
        sum1 += select(vec4<f32>(), amount, key >= at1);
        sum2 += select(vec4<f32>(), amount, key >= at2);
        sum3 += select(vec4<f32>(), amount, key >= at3);
      }
    }
    lane_sums[lane] = sum0;
    lane_sums[LANES + lane] = sum1;
    lane_sums[2u * LANES + lane] = sum2;
    lane_sums[3u * LANES + lane] = sum3;
    workgroupBarrier();
    if (lane < 4u) {
      var sum = vec4<f32>();
      for (var i = 0u; i < LANES; i += 1u) {
        sum += lane_sums[lane * LANES + i];
      }
      sums[lane] = sum;
    }
    let found = workgroupUniformLoad(&sums);
    if (first && what == MASS_ABOVE) {
      wanted = goal * found[0].x;
    }
    let reached0 = vec4<bool>(true, reached(at0, found[0], high, wanted - above_high).yzw);
    let reached1 = reached(at1, found[1], high, wanted - above_high);
    let reached2 = reached(at2, found[2], high, wanted - above_high);
    let reached3 = reached(at3, found[3], high, wanted - above_high);
    let all_reached = vec4<u32>(reached0) + vec4<u32>(reached1) + vec4<u32>(reached2) + vec4<u32>(reached3);
    let beyond = max(
      max(select(found[0], vec4<f32>(), reached0), select(found[1], vec4<f32>(), reached1)),
      max(select(found[2], vec4<f32>(), reached2), select(found[3], vec4<f32>(), reached3)),
    );
    low += (dot(all_reached, vec4<u32>(1u)) - 1u) * step;
    high = min(high, low + step);
    above_high += max(max(beyond.x, beyond.y), max(beyond.z, beyond.w));
  }
  return low;
}
