{# Sixteen int8 `values`, one for each nibble: four of them at once, chosen by one bit of the nibbles after another. #}
{% macro splat(value) %}${"0x%02x%02x%02x%02x" % ((value % 256,) * 4)}u{% endmacro %}
fn nibble_values(nibbles: vec4<u32>) -> vec4<u32> {
  // in bytes, all bits set or none
{% for bit in range(4) %}
  let m${bit} = ((nibbles >> vec4<u32>(${bit}u)) & vec4<u32>(0x01010101u)) * 255u;
{% endfor %}
{% for i in range(8) %}
  let v0_${i} = (m0 & vec4<u32>(${splat(values[2 * i])} ^ ${splat(values[2 * i + 1])})) ^ vec4<u32>(${splat(values[2 * i])});
{% endfor %}
{% for bit in range(1, 4) %}{% for i in range(8 // 2 ** bit) %}
  let v${bit}_${i} = (m${bit} & (v${bit - 1}_${2 * i} ^ v${bit - 1}_${2 * i + 1})) ^ v${bit - 1}_${2 * i};
{% endfor %}{% endfor %}
  return v3_0;
}

fn nibble_quants(v: vec4<u32>) -> Quants {
  return Quants(nibble_values(v), nibble_values(v >> vec4<u32>(4u)));
}
