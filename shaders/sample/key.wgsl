{# Logits as whole numbers of the same order, so that comparing and bisecting them is exact on every adapter. Rows are
   UNITS vectors of four, of which the first VOCAB words count. #}
const VOCAB = ${vocab}u;
const UNITS = ${units}u;
const LANES = ${lanes}u;
const LARGEST = 3.4028234e38;

// 0 for NaN and -inf, which are never chosen, 1 for the lowest finite float, and one more for each next; both zeros are
// one key, and +inf is the largest finite float.
fn keys_of(bits: vec4<u32>) -> vec4<u32> {
  let ordered = select(bits + 0x80000000u, 0u - bits, bits >= vec4<u32>(0x80000000u));
  let keys = ordered - 0x00800000u;
  return select(min(keys, vec4<u32>(0xfeffffffu)), vec4<u32>(0u), keys > vec4<u32>(0xff000000u));
}

fn key_of(logit: f32) -> u32 {
  return keys_of(vec4<u32>(bitcast<u32>(logit))).x;
}

// The float of a key above 0.
fn logit_of(key: u32) -> f32 {
  let ordered = key + 0x00800000u;
  return bitcast<f32>(select(0u - ordered, ordered - 0x80000000u, ordered >= 0x80000000u));
}

// Keys of the unit's words; what pads the row has key 0.
fn unit_keys(unit: u32, bits: vec4<u32>) -> vec4<u32> {
{% if vocab % 4 %}
  return select(keys_of(bits), vec4<u32>(0u), 4u * unit + vec4<u32>(0u, 1u, 2u, 3u) >= vec4<u32>(VOCAB));
{% else %}
  return keys_of(bits);
{% endif %}
}
