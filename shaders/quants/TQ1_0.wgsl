{# A byte holds five weights as digits of base three, 256 / 243 times their number, so that the digit is what a
   multiplication by three carries out of it. Units 0 to 4 are the five digits of 32 bytes; 80 weights those of 16
   bytes, a digit after the other; the last 16 weights the first four digits of 4 bytes. #}
const SPLIT_SCALES = false;

fn digits(bytes: vec4<u32>, power: vec4<u32>) -> vec4<u32> {
  let half = vec4<u32>(0x00ff00ffu);
  let even = ((bytes & half) * power) & half;
  let odd = (((bytes >> vec4<u32>(8u)) & half) * power) & half;
  return (((even * 3u) >> vec4<u32>(8u)) & half) | ((odd * 3u) & vec4<u32>(0xff00ff00u));
}

fn power(digit: u32) -> vec4<u32> {
  // 3 to the power of the digit
  return vec4<u32>(select((0x1b090301u >> (8u * digit)) & 255u, 81u, digit == 4u));
}

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  let block = unit >> 3u;
  let j = (unit + odd) & 7u;
  let i = (QUANTS + feature * QUANTS_ROW) / 4u + 3u * block;
  if (j < 5u) {
    return Quants(digits(w[i], power(j)), digits(w[i + 1u], power(j)));
  }
  let bytes = w[i + 2u];
  if (j < 7u) {
    return Quants(digits(bytes, power(2u * j - 10u)), digits(bytes, power(2u * j - 9u)));
  }
  let last = vec4<u32>(word(HIGH + feature * HIGH_ROW + block));
  return Quants(digits(bytes, power(4u)), digits(last, vec4<u32>(1u, 3u, 9u, 27u)));
}

fn scales(feature: u32, unit: u32, odd: u32) -> vec4<f32> {
  let d = half_float(SCALE + feature * SCALE_ROW, unit >> 3u);
  return vec4<f32>(d, -d, d, -d);
}
