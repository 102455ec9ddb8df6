{# Samples the token of an output and advances its slot: a workgroup an output. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read_write> slots: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<u32>;
@group(0) @binding(3) var<storage, read> logits: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> peaks: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> ring: array<u32>;
{% include "state.wgsl" %}
{% include "row_position.wgsl" %}
{% include "sample/logit.wgsl" %}
{% include "sample/cutoff.wgsl" %}
{% include "sample/draw.wgsl" %}

struct Settings {
  top: u32,
  top_k: u32,
  temperature: f32,
  top_p: f32,
  min_p: f32,
  random: f32,
}

var<workgroup> settings: Settings;

// What the slot asks for, and the row's largest key.
fn read_settings(output: u32, slot: u32, lane: u32) -> Settings {
  var best = vec4<u32>(0u);
  for (var unit = lane; unit < PEAK_UNITS; unit += LANES) {
    best = max(best, peaks[output * PEAK_UNITS + unit]);
  }
  tally[lane] = max(max(best.x, best.y), max(best.z, best.w));
  workgroupBarrier();
  if (lane == 0u) {
    var top = 0u;
    for (var i = 0u; i < LANES; i += 1u) {
      top = max(top, tally[i]);
    }
    let at = SLOT_WORDS * slot;
    settings = Settings(
      top,
      slots[at + 5u],
      bitcast<f32>(slots[at + 4u]),
      bitcast<f32>(slots[at + 6u]),
      bitcast<f32>(slots[at + 7u]),
      random(slots[at + 2u], slots[at + 3u]),
    );
  }
  return workgroupUniformLoad(&settings);
}

// The first token whose logit has this key, in a run; VOCAB if none has.
fn first_in_run(output: u32, run: u32, key: u32) -> u32 {
  let end = min((run + 1u) * RUN_UNITS, UNITS);
  for (var unit = run * RUN_UNITS; unit < end; unit += 1u) {
    let same = unit_keys(unit, logits[output * UNITS + unit]) == vec4<u32>(key);
    if (any(same)) {
      return 4u * unit + select(select(select(3u, 2u, same.z), 1u, same.y), 0u, same.x);
    }
  }
  return VOCAB;
}

// The first token of the largest logit, for lane 0.
fn greedy(output: u32, lane: u32, top: u32) -> u32 {
  var token = VOCAB;
  for (var run = lane; run < RUNS && token == VOCAB; run += LANES) {
    if (peaks[output * PEAK_UNITS + run / 4u][run % 4u] == top) {
      token = first_in_run(output, run, top);
    }
  }
  tally[lane] = token;
  workgroupBarrier();
  if (lane == 0u) {
    for (var i = 1u; i < LANES; i += 1u) {
      token = min(token, tally[i]);
    }
  }
  return token;
}

fn asks_for(s: Settings, what: u32) -> bool {
  if (what == MASS_ABOVE) {
    return s.top_p < 1.0;
  }
  return s.top_k > 0u && s.top_k < VOCAB && (what == LOGITS_ABOVE || s.top_k <= RUNS);
}

// In the order of llama.cpp: top-k, then top-p and min-p on the softmax at temperature 1 of what is left, then
// temperature.
fn sampled(output: u32, lane: u32, s: Settings) -> u32 {
  let top = logit_of(s.top);
  var min_p_low = 1u;
  if (s.min_p > 0.0) {
    min_p_low = max(1u, min(s.top, key_of(top + log(s.min_p))));
  }
  // The k-th peak bounds the k-th logit from below, and is found without reading logits.
  var low = 1u;
  for (var what = RUNS_ABOVE; what <= MASS_ABOVE; what += 1u) {
    if (asks_for(s, what)) {
      var start = low;
      var goal = f32(s.top_k);
      if (what == MASS_ABOVE) {
        goal = max(s.top_p, 0.0);
        // All that is below this has less weight together than top-p leaves out.
        let bottom = key_of(top + log((1.0 - goal) / f32(VOCAB)) - 1.0);
        start = max(max(low, min_p_low), bottom);
      }
      low = cutoff(output, lane, what, s.top, low, start, goal);
    }
  }
  return draw(output, lane, max(low, min_p_low), top, s.temperature, s.random);
}

fn advance(row: u32, token: u32) {
  let slot = row_slot(row);
  let at = SLOT_WORDS * slot;
  let position = row_position(row);
  let count = slots[at + 3u];
  slots[at] = token;
  slots[at + 1u] = position + 1u;
  slots[at + 3u] = count + 1u;
  ring[slot * ${ring}u + count % ${ring}u] = token;
  if ((slots[at + 11u] & 1u) != 0u) {
    counts[slot * VOCAB + token] += 1u;
  }
}

@compute @workgroup_size(${lanes})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let output = workgroup.x;
  if (output >= output_count()) {
    return;
  }
  let row = output_row(output);
  let s = read_settings(output, row_slot(row), lane);
  var token = 0u;
  if (s.temperature >= 1.0e-6 && s.top_k != 1u && s.top > 0u) {
    token = sampled(output, lane, s);
  } else {
    token = greedy(output, lane, s.top);
  }
  if (lane == 0u) {
    advance(row, token);
  }
}
