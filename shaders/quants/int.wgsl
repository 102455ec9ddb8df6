{# Whole numbers of `bits` bits with a scale and a zero for each `units` units: scale * (q - zero). Those of eight bits lie
   there as int8, less 128. #}
const SPLIT_SCALES = false;

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
{% if bits == 4 %}
  let v = w[(QUANTS + feature * QUANTS_ROW) / 4u + unit + odd];
  return Quants(v & vec4<u32>(0x0f0f0f0fu), (v >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu));
{% else %}
  let i = (QUANTS + feature * QUANTS_ROW) / 4u + 2u * (unit + odd);
  return Quants(w[i], w[i + 1u]);
{% endif %}
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let i = (unit + odd) / ${units}u;
  let d = bitcast<f32>(word(SCALE + feature * SCALE_ROW + i));
  let offset = d * (${0 if bits == 4 else 128}.0 - f32(half_at(ZERO + feature * ZERO_ROW, i)));
  return vec4<f32>(d, offset, d, offset);
}
