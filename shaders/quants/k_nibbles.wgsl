{# Q4_K and Q5_K: superblocks of 8 units; units 2j and 2j+1 are the low and high nibbles of the same 32 bytes, and each
   has a scale and a minimum of 6 bits. #}
const SPLIT_SCALES = false;

fn nibbles(feature: u32, unit: u32) -> Quants {
  let i = (QUANTS + feature * QUANTS_ROW) / 4u + 2u * (unit >> 1u);
  let shift = vec4<u32>(4u * (unit & 1u));
  return Quants((w[i] >> shift) & vec4<u32>(0x0f0f0f0fu), (w[i + 1u] >> shift) & vec4<u32>(0x0f0f0f0fu));
}

fn scales(feature: u32, unit: u32) -> vec4<f32> {
  let block = unit >> 3u;
  let j = unit & 7u;
  let start = SCALES + feature * SCALES_ROW + 3u * block;
  var scale: u32;
  var offset: u32;
  if (j < 4u) {
    scale = byte(start, j) & 63u;
    offset = byte(start, j + 4u) & 63u;
  } else {
    let low = byte(start, j + 4u);
    scale = (low & 15u) | ((byte(start, j - 4u) >> 6u) << 4u);
    offset = (low >> 4u) | ((byte(start, j) >> 6u) << 4u);
  }
  let d = unpack2x16float(word(SCALE_MIN + feature * SCALE_MIN_ROW + block));
  return vec4<f32>(d.x * f32(scale), -d.y * f32(offset), d.x * f32(scale), -d.y * f32(offset));
}
