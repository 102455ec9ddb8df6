"""Sampling on the device: the next token of each output, and its slot moved on to it.

The order is llama.cpp's: penalties, top-k, top-p, min-p, temperature, draw. Repetition divides positive logits of
tokens of prompt and output and multiplies negative ones; presence and frequency are taken off tokens of the output
alone. Top-p and min-p look at the softmax at temperature 1 of what the steps before left, so the temperature never
changes which tokens are allowed. Tokens whose logits tie with the last allowed one are all allowed.

A temperature below 1e-6 or a top-k of 1 means the largest logit, of equal ones the lowest token. NaN and -inf are never
chosen (where there is nothing else the token is 0), and +inf counts as the largest finite float. The draw takes the
first token, in order of tokens, at which the running sum of weights exceeds u times their total, where u is a hash of
the slot's seed and count: the same seed gives the same text in any batch.

No row is sorted. A first kernel, parallel over the vocabulary, notes the peak of each run of logits; runs whose peak is
too low are not read again. Thresholds are found by bisection, sixteen ways at once, to the exact float.

Words of a slot (floats as their bits): 0 token, 1 position, 2 seed, 3 count of tokens sampled, 4 temperature, 5 top-k
(0 is off), 6 top-p (1 is off), 7 min-p (0 is off), 8 repetition penalty (1 is off), 9 presence penalty, 10 frequency
penalty, 11 flags (bit 0: some penalty is on); 12 and 13 are those of `bias.py` and `top_tokens.py`.
"""

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import SLOT_WORDS, PlanBuilder, ceil_div, row_floats

RING = 64
"""sampled tokens kept a slot, until the host reads them"""

_LANES = 64
_RUN_UNITS = 8
_MAX_RUNS = 2048
"""bounded by the workgroup memory that lists them"""
_MAX_VOCAB = 1 << 24
"""up to here floats count exactly"""


def sample(builder: PlanBuilder, logits: Buffer, vocab: int, counts: Buffer, ring: Buffer) -> None:
    """Adds two dispatches that sample a token for each of the plan's outputs; no two outputs may share a slot.

    Of the output's slot, the token becomes the sampled one, the position that of its row plus 1, the count one more.

    Args:
        logits: f32 [outputs, row_floats(vocab)]; penalties are applied in place.
        counts: u32 [slots, vocab]: bit 31 says that the token is in the prompt, the others how often it was generated.
            Read and updated only where bit 0 of the slot's flags is set; whoever starts such a sequence fills its row.
        ring: u32 [slots, RING]: the token goes to the slot's count % RING.
    """
    slots = builder.slots.size // (4 * SLOT_WORDS)
    assert 0 < vocab <= _MAX_VOCAB, f"a vocabulary of {vocab}"
    assert logits.size >= 4 * builder.outputs * row_floats(vocab), "logits are too small"
    assert counts.size >= 4 * slots * vocab, "counts are too small"
    assert ring.size >= 4 * slots * RING, "the ring is too small"
    units = ceil_div(vocab, 4)
    run_units = _RUN_UNITS
    while ceil_div(units, run_units) > _MAX_RUNS:
        run_units *= 2
    runs = ceil_div(units, run_units)
    peak_units = ceil_div(runs, 4)
    peaks = builder.buffer(16 * builder.outputs * peak_units, "logit peaks")
    values = {
        "vocab": vocab,
        "units": units,
        "run_units": run_units,
        "runs": runs,
        "peak_units": peak_units,
        "lanes": _LANES,
        "ring": RING,
    }
    builder.add(
        builder.shader("sample/peaks.wgsl", f"v{vocab}", **values),
        (builder.state, builder.slots, counts, logits, peaks),
        (ceil_div(runs, _LANES), builder.outputs, 1),
    )
    builder.add(
        builder.shader("sample/token.wgsl", f"v{vocab}", **values),
        (builder.state, builder.slots, counts, logits, peaks, ring),
        (builder.outputs, 1, 1),
    )
