{# Applies the slot's penalties to the logits, in place, and finds the largest key of each run: an invocation a run,
   without barriers. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> counts: array<u32>;
@group(0) @binding(3) var<storage, read_write> logits: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> peaks: array<u32>;
{% include "state.wgsl" %}
{% include "sample/logit.wgsl" %}

// Repetition counts prompt and output, presence and frequency only the output.
fn penalised(logit: f32, seen: u32, repetition: f32, presence: f32, frequency: f32) -> f32 {
  let generated = seen & 0x7fffffffu;
  let repeated = select(logit * repetition, logit / repetition, logit > 0.0);
  return repeated - select(0.0, presence + frequency * f32(generated), generated > 0u);
}

fn penalise(first: u32, begin: u32, end: u32, slot: u32) {
  let settings = SLOT_WORDS * slot;
  let repetition = bitcast<f32>(slots[settings + 8u]);
  let presence = bitcast<f32>(slots[settings + 9u]);
  let frequency = bitcast<f32>(slots[settings + 10u]);
  for (var unit = begin; unit < end; unit += 1u) {
    for (var i = 0u; i < 4u; i += 1u) {
      let token = 4u * unit + i;
      if (token < VOCAB) {
        let seen = counts[slot * VOCAB + token];
        if (seen > 0u) {
          let logit = bitcast<f32>(logits[first + unit][i]);
          logits[first + unit][i] = bitcast<u32>(penalised(logit, seen, repetition, presence, frequency));
        }
      }
    }
  }
}

@compute @workgroup_size(${lanes})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let run = id.x;
  let output = id.y;
  if (run >= 4u * PEAK_UNITS || output >= output_count()) {
    return;
  }
  let first = output * UNITS;
  let begin = min(run * RUN_UNITS, UNITS);
  let end = min(begin + RUN_UNITS, UNITS);
  let slot = row_slot(output_row(output));
  if ((slots[SLOT_WORDS * slot + 11u] & 1u) != 0u) {
    penalise(first, begin, end, slot);
  }
  var best = vec4<u32>(0u);
  for (var unit = begin; unit < end; unit += 1u) {
    best = max(best, unit_keys(unit, logits[first + unit]));
  }
  peaks[output * 4u * PEAK_UNITS + run] = max(max(best.x, best.y), max(best.z, best.w));
}
