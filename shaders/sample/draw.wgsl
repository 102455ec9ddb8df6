{# Draws one of the allowed logits of a row in proportion to its softmax weight. Needs `sample/cutoff.wgsl`. #}
var<workgroup> lane_mass: array<f32, LANES>;
var<workgroup> choice: u32;

// In [0, 1), in steps of 2^-24: the hash pcg2d of Jarzynski and Olano, "Hash Functions for GPU Rendering" (2020).
fn random(seed: u32, count: u32) -> f32 {
  var v = vec2<u32>(seed, count) * 1664525u + 1013904223u;
  for (var i = 0u; i < 2u; i += 1u) {
    v.x += v.y * 1664525u;
    v.y += v.x * 1664525u;
    v ^= v >> vec2<u32>(16u);
  }
  return f32(v.x >> 8u) * 0x1p-24;
}

// Weights of the unit's logits from key `low` on.
fn unit_weights(output: u32, unit: u32, low: u32, top: f32, temperature: f32) -> vec4<f32> {
  let bits = logits[output * UNITS + unit];
  return select(vec4<f32>(), weights(bits, top, temperature), unit_keys(unit, bits) >= vec4<u32>(low));
}

// Weight of the units from `begin` to `end`, passing over runs with nothing from key `low` on.
fn mass(output: u32, begin: u32, end: u32, low: u32, top: f32, temperature: f32) -> f32 {
  var sum = vec4<f32>();
  var unit = begin;
  while (unit < end) {
    let run = unit / RUN_UNITS;
    let stop = min(end, (run + 1u) * RUN_UNITS);
    if (peaks[output * PEAK_UNITS + run / 4u][run % 4u] >= low) {
      for (; unit < stop; unit += 1u) {
        sum += unit_weights(output, unit, low, top, temperature);
      }
    }
    unit = stop;
  }
  return sum.x + sum.y + sum.z + sum.w;
}

// The first token, in order of tokens, at which the running sum of weights exceeds `uniform_number` of their total. The
// row is cut into a slice a lane, then the slice where that happens, until one unit is left.
fn draw(output: u32, lane: u32, low: u32, top: f32, temperature: f32, uniform_number: f32) -> u32 {
  var begin = 0u;
  var end = UNITS;
  var left = 0.0;
  var first = true;
  while (first || end - begin > 1u) {
    let share = (end - begin + LANES - 1u) / LANES;
    let own = min(begin + lane * share, end);
    lane_mass[lane] = mass(output, own, min(own + share, end), low, top, temperature);
    workgroupBarrier();
    if (lane == 0u) {
      if (first) {
        for (var i = 0u; i < LANES; i += 1u) {
          left += lane_mass[i];
        }
        left *= uniform_number;
      }
      // Rounding may leave more than there is: the last slice with any weight then has it.
      var chosen = 0u;
      for (var i = 0u; i < LANES; i += 1u) {
        let weight = lane_mass[i];
        if (weight > 0.0) {
          chosen = i;
          if (left < weight) {
            break;
          }
          left -= weight;
        }
      }
      choice = chosen;
    }
    begin += workgroupUniformLoad(&choice) * share;
    end = min(begin + share, end);
    first = false;
  }
  let weights = unit_weights(output, begin, low, top, temperature);
  var token = 0u;
  for (var i = 0u; i < 4u; i += 1u) {
    if (weights[i] > 0.0) {
      token = 4u * begin + i;
      if (left < weights[i]) {
        break;
      }
      left -= weights[i];
    }
  }
  return token;
}
