{% include "quants/k_nibbles.wgsl" %}

fn quants(feature: u32, unit: u32, odd: u32) -> Quants {
  return nibbles(feature, unit, odd);
}
