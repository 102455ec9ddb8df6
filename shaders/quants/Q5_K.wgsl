{% include "quants/k_nibbles.wgsl" %}

{# Bit j of the 32 high bytes of a superblock belongs to unit j. #}
fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let low = nibbles(feature, unit, odd);
  let i = (HIGH + feature * HIGH_ROW) / 4u + 2u * (unit >> 3u);
  let bit = vec4<u32>((unit + odd) & 7u);
  let one = vec4<u32>(0x01010101u);
  return Quants(
    low.lo | (((w[i] >> bit) & one) << vec4<u32>(4u)), low.hi | (((w[i + 1u] >> bit) & one) << vec4<u32>(4u)));
}
