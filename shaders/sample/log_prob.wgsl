{# How likely a token is after each output: the token's logit, and the largest logit and the sum of the exponentials of
   what all logits lie below it, from which the host takes the logarithm in float64. A workgroup an output. #}
@group(0) @binding(0) var<storage, read> state: array<u32>;
@group(0) @binding(1) var<storage, read> logits: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> wanted: array<u32>;
@group(0) @binding(3) var<storage, read_write> found: array<vec4<f32>>;
{% include "state.wgsl" %}

const VOCAB = ${vocab}u;
const UNITS = ${units}u;
const LANES = ${lanes}u;
const LOWEST = -3.0e38;

var<workgroup> tops: array<f32, LANES>;
var<workgroup> sums: array<f32, LANES>;

// Four logits, without what pads the row.
fn unit_logits(first: u32, unit: u32) -> vec4<f32> {
  let inside = vec4<u32>(4u * unit) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(VOCAB);
  return select(vec4<f32>(LOWEST), logits[first + unit], inside);
}

@compute @workgroup_size(${lanes})
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let output = workgroup.x;
  if (output >= output_count()) {
    return;
  }
  let first = output * UNITS;
  var best = vec4<f32>(LOWEST);
  for (var unit = lane; unit < UNITS; unit += LANES) {
    best = max(best, unit_logits(first, unit));
  }
  tops[lane] = max(max(best.x, best.y), max(best.z, best.w));
  workgroupBarrier();
  var top = LOWEST;
  for (var i = 0u; i < LANES; i += 1u) {
    top = max(top, tops[i]);
  }
  var sum = vec4<f32>(0.0);
  for (var unit = lane; unit < UNITS; unit += LANES) {
    sum += exp(unit_logits(first, unit) - top);
  }
  sums[lane] = (sum.x + sum.y) + (sum.z + sum.w);
  workgroupBarrier();
  if (lane == 0u) {
    var total = 0.0;
    for (var i = 0u; i < LANES; i += 1u) {
      total += sums[i];
    }
    let token = min(wanted[output], VOCAB - 1u);
    found[output] = vec4<f32>(logits[first + token / 4u][token % 4u], top, total, 0.0);
  }
}
