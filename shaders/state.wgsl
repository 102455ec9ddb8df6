{# What changes from step to step, as `ops/state.py` packs it; and the slots, which the sampler advances. Needs the binding
   `state`.

   A slot's words: 0 token (sampled last, the next input), 1 its position, 2 seed, 3 how many tokens were sampled,
   4 temperature, 5 top-k, 6 top-p, 7 min-p, 8 repetition, 9 presence and 10 frequency penalty (all but top-k as f32),
   11 flags (bit 0: some penalty is on, bit 1: the likeliest tokens are asked for), 12 how many tokens have a bias,
   13 how many of the likeliest tokens are asked for. #}
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
