const QUADS = ${width // 4}u;

// The row of the ring that holds a position of a slot.
fn ring_row(slot: u32, position: u32) -> u32 {
  return slot * ${ring}u + position % ${ring}u;
}
