"""What the sampler should give: the largest logit, seeded draws, and penalties."""

import math
import struct
from array import array

from wgpu_engine.ops.builder import SLOT_WORDS, row_floats
from wgpu_engine.ops.known_answers.trial import Stage, Trial
from wgpu_engine.ops.sample import RING, sample

STEPS = 6
TEMPERATURE, TOP_K, TOP_P, MIN_P, SEED = 0.8, 40, 0.9, 0.05, 20
REPETITION, PRESENCE, FREQUENCY = 1.5, 0.25, 0.5
_LIKELY = 211
_UNLIKELY = -30.0
_IN_PROMPT = 1 << 31


async def sampling_error(trial: Trial, stage: Stage, vocab: int) -> float:
    """Samples on a stage of one output, whose row is in slot 0; returns how many tokens are wrong."""
    builder, expected = stage.builder, Expected(vocab)
    slots = builder.slots.size // (4 * SLOT_WORDS)
    row = array("f", [_UNLIKELY]) * vocab + array("f", [99.0]) * (row_floats(vocab) - vocab)
    for token, logit in expected.logits.items():
        row[token] = logit
    logits = builder.logits(vocab)
    counts = trial.hold(trial.device.buffer(4 * slots * vocab, "token counts"))
    ring = trial.hold(trial.device.buffer(4 * slots * RING, "sampled tokens"))
    start = len(builder.dispatches)
    sample(builder, logits, vocab, counts, ring)
    plan = await trial.device.plan(builder.dispatches[start:], "known answers")

    async def tokens(slot: bytes, steps: int) -> list[int]:
        trial.device.write(builder.slots, 0, slot)
        for _ in range(steps):
            trial.device.write(logits, 0, row.tobytes())
            trial.device.run(plan)
        return list(struct.unpack(f"<{steps}I", await trial.read(ring, 0, steps)))

    found = await tokens(_slot(), 1) + await tokens(_slot(drawn=True), STEPS)
    trial.device.write(counts, 4 * expected.prompt_token, struct.pack("<I", _IN_PROMPT))
    found += await tokens(_slot(penalised=True), STEPS)
    wanted = [expected.order[0], *map(expected.draw, range(STEPS)), *expected.penalised()]
    return sum(a != b for a, b in zip(found, wanted, strict=True))


class Expected:
    """The tokens that sampling should give, on logits of which some are likely."""

    def __init__(self, vocab: int) -> None:
        self.logits = likely_logits(vocab)
        self.order = sorted(self.logits, key=self.logits.__getitem__, reverse=True)
        self.prompt_token = self.order[1 % len(self.order)]
        """one that penalties know of from the prompt: the second likeliest"""

    def draw(self, count: int) -> int:
        """The token that is drawn after `count` others."""
        return self.draw_with_margin(count)[0]

    def draw_with_margin(self, count: int) -> tuple[int, float]:
        """The token that is drawn, and how near another one was, as a part of all weight."""
        kept = self.order[:TOP_K]
        top = self.logits[kept[0]]
        weights = [math.exp(self.logits[token] - top) for token in kept]
        enough = next(i for i in range(len(kept)) if sum(weights[: i + 1]) >= TOP_P * sum(weights))
        allowed = sorted(token for i, token in enumerate(kept) if i <= enough and weights[i] >= MIN_P)
        final = [math.exp((self.logits[token] - top) / TEMPERATURE) for token in allowed]
        left = _uniform(SEED, count) * sum(final)
        for token, weight in zip(allowed, final, strict=True):
            if left < weight:
                return token, min(left, weight - left) / sum(final)
            left -= weight
        raise AssertionError("a draw is below the sum of weights")

    def penalised(self) -> list[int]:
        """The largest logit after penalties, step by step."""
        generated: list[int] = []
        for _ in range(STEPS):
            row = dict(self.logits)
            for token in {self.prompt_token, *generated}:
                row[token] = row[token] / REPETITION if row[token] > 0 else row[token] * REPETITION
            for token in set(generated):
                row[token] -= PRESENCE + FREQUENCY * generated.count(token)
            generated.append(max(row, key=lambda token: (row[token], -token)))
        return generated


def likely_logits(vocab: int) -> dict[int, float]:
    """Logits of some tokens all over the vocabulary, no two the same and the largest near each other."""
    count = min(vocab, _LIKELY)
    # 50 is no multiple of the prime 211, so that all ranks differ
    ranks = [i * 50 % _LIKELY for i in range(count)]
    return {i * vocab // count: (rank - 150) / 16 for i, rank in enumerate(ranks)}


def _uniform(seed: int, count: int) -> float:
    """The hash pcg2d, as `shaders/sample/draw.wgsl` has it, of a seed and a count: in [0, 1)."""
    x, y = ((v * 1664525 + 1013904223) % 2**32 for v in (seed, count))
    for _ in range(2):
        x = (x + y * 1664525) % 2**32
        y = (y + x * 1664525) % 2**32
        x, y = x ^ x >> 16, y ^ y >> 16
    return (x >> 8) * 2.0**-24


def _slot(*, drawn: bool = False, penalised: bool = False) -> bytes:
    """A slot as `ops/sample.py` wants it: token, position, seed, count, and the settings of sampling."""
    temperature, top_k, top_p, min_p = (TEMPERATURE, TOP_K, TOP_P, MIN_P) if drawn else (0.0, 0, 1.0, 0.0)
    penalties = (REPETITION, PRESENCE, FREQUENCY, 1) if penalised else (1.0, 0.0, 0.0, 0)
    words = struct.pack("<4I f I 5f I", 0, 0, SEED, 0, temperature, top_k, top_p, min_p, *penalties)
    return words.ljust(4 * SLOT_WORDS, b"\0")
