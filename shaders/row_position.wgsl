{# Token, position and sight of a row, from the state or from the row's slot. Needs `state.wgsl` and the binding `slots`. #}
fn row_token(row: u32) -> u32 {
  let token = state[4u + 4u * row];
  if (token == FROM_SLOT) {
    return slots[SLOT_WORDS * row_slot(row)];
  }
  return token;
}

fn row_position(row: u32) -> u32 {
  let position = state[4u + 4u * row + 1u];
  if (position == FROM_SLOT) {
    return slots[SLOT_WORDS * row_slot(row) + 1u];
  }
  return position;
}

// The last position that a row sees where attention isn't causal.
fn row_sees(row: u32) -> u32 {
  let last = state[4u + 4u * row + 3u];
  if (last == FROM_SLOT) {
    return row_position(row);
  }
  return last;
}
