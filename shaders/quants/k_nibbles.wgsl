{# Q4_K and Q5_K: superblocks of 8 units; units 2j and 2j+1 are the low and high nibbles of the same 32 bytes, and each
   has a scale and a minimum of 6 bits. #}
const SPLIT_SCALES = false;

fn nibbles(feature: u32, unit: u32, odd: u32) -> Quants {
  let i = (QUANTS + feature * QUANTS_ROW) / 4u + 2u * (unit >> 1u);
  let shift = vec4<u32>(4u * ((unit + odd) & 1u));
  return Quants((w[i] >> shift) & vec4<u32>(0x0f0f0f0fu), (w[i + 1u] >> shift) & vec4<u32>(0x0f0f0f0fu));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  // Bytes 0..3 and 4..7 hold scales and minima of the first four units; bytes 8..11 the low nibbles of those of the
  // last four, whose two high bits are on top of the first four's.
  let block = unit >> 3u;
  let start = SCALES + feature * SCALES_ROW + 3u * block;
  let shift = vec2<u32>(8u * ((unit + odd) & 3u));
  let first = vec2<u32>(word(start), word(start + 1u)) >> shift;
  let low = (vec2<u32>(word(start + 2u)) >> (shift + vec2<u32>(0u, 4u))) & vec2<u32>(15u);
  let last = low | ((first >> vec2<u32>(2u)) & vec2<u32>(48u));
  let d = unpack2x16float(word(SCALE_MIN + feature * SCALE_MIN_ROW + block));
  return (vec2<f32>(select(first & vec2<u32>(63u), last, ((unit + odd) & 4u) != 0u)) * vec2<f32>(d.x, -d.y)).xyxy;
}
