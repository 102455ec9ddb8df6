{# What changes from step to step. Needs the bindings `state` and, where ROW_* functions are used, `slots`. #}
const SLOT_WORDS = 16u;
const FROM_SLOT = 0xffffffffu;

fn row_count() -> u32 {
  return state[0];
}

fn output_count() -> u32 {
  return state[1];
}

fn output_row(output: u32) -> u32 {
  return state[4u + 4u * row_count() + output];
}

fn row_slot(row: u32) -> u32 {
  return state[4u + 4u * row + 2u];
}
