{# Superblocks of 8 units, in which 32 bytes hold two bits each for four units. #}
fn bit_pairs(feature: u32, unit: u32, odd: u32) -> Quants {
  let i = (QUANTS + feature * QUANTS_ROW) / 4u + 2u * (unit >> 2u);
  let shift = vec4<u32>(2u * ((unit + odd) & 3u));
  return Quants((w[i] >> shift) & vec4<u32>(0x03030303u), (w[i + 1u] >> shift) & vec4<u32>(0x03030303u));
}
