"""A plan that does nothing but sample, and the slots that say how."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wgpu_engine.gpu.device import Device
from wgpu_engine.ops.builder import SLOT_WORDS, PlanBuilder, ScratchPool, row_floats
from wgpu_engine.ops.sample import RING, sample
from wgpu_engine.ops.state import FROM_SLOT, Row, pack_state
from wgpu_engine.platform.drive import drive

Floats = NDArray[np.float32]
Words = NDArray[np.uint32]


def bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


@dataclass(frozen=True)
class Slot:
    token: int = 0
    position: int = 0
    seed: int = 0
    count: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    flags: int = 0

    def words(self) -> list[int]:
        head = [self.token, self.position, self.seed, self.count, bits(self.temperature), self.top_k]
        floats = [self.top_p, self.min_p, self.repetition, self.presence, self.frequency]
        return [*head, *map(bits, floats), self.flags, 0, 0, 0, 0]


class Bench:
    """A plan that does nothing but sample, with row i in slot i unless `rows` are given."""

    def __init__(self, device: Device, pool: ScratchPool, vocab: int, outputs: int, slots: int) -> None:
        self.device, self.vocab, self.outputs, self.slot_count = device, vocab, outputs, slots
        self.slots = device.buffer(4 * SLOT_WORDS * slots, "slots")
        self.counts = device.buffer(4 * slots * vocab, "counts")
        self.ring = device.buffer(4 * slots * RING, "ring")
        self.builder = PlanBuilder(device, outputs, outputs, "exact", self.slots, pool)
        self.logits = self.builder.logits(vocab)
        sample(self.builder, self.logits, vocab, self.counts, self.ring)
        self.plan = drive(device.plan(self.builder.dispatches, "sample"))

    def free(self) -> None:
        for buffer in (self.slots, self.counts, self.ring, self.builder.state):
            self.device.free(buffer)

    def write_logits(self, logits: Floats) -> None:
        """Logits [outputs or fewer, vocab]; what pads the rows would win if it were looked at."""
        padded = np.full((self.outputs, row_floats(self.vocab)), 1e38, np.float32)
        padded[: len(logits), : self.vocab] = logits
        self.device.write(self.logits, 0, padded.tobytes())

    def write_slots(self, slots: list[Slot], counts: Words | None = None) -> None:
        words = np.zeros((self.slot_count, SLOT_WORDS), np.uint32)
        words[: len(slots)] = [slot.words() for slot in slots]
        self.device.write(self.slots, 0, words.tobytes())
        self.device.write(self.ring, 0, bytes(4 * RING * self.slot_count))
        all_counts = np.zeros((self.slot_count, self.vocab), np.uint32)
        if counts is not None:
            all_counts[: len(counts)] = counts
        self.device.write(self.counts, 0, all_counts.tobytes())

    def write_state(self, rows: list[tuple[int, int]], output_rows: list[int]) -> None:
        """Rows as (position, slot)."""
        state = pack_state([Row(FROM_SLOT, position, slot) for position, slot in rows], output_rows)
        self.device.write(self.builder.state, 0, state)

    def load(self, logits: Floats, slots: list[Slot], counts: Words | None = None) -> None:
        self.write_logits(logits)
        self.write_slots(slots, counts)
        self.write_state([(FROM_SLOT, slot) for slot in range(len(slots))], list(range(len(slots))))

    def run(self, times: int = 1) -> None:
        for _ in range(times):
            self.device.run(self.plan)

    def read(self, name: str) -> Words:
        """The buffer `name` (slots, counts or ring), a row a slot."""
        width = {"slots": SLOT_WORDS, "counts": self.vocab, "ring": RING}[name]
        pending = self.device.read(getattr(self, name), 0, 4 * width * self.slot_count)
        return np.frombuffer(drive(self.device.receive(pending)), np.uint32).reshape(self.slot_count, width)

    def tokens(self, logits: Floats, slots: list[Slot], counts: Words | None = None) -> Words:
        """One token for each row of logits."""
        self.load(logits, slots, counts)
        self.run()
        return self.read("slots")[: len(slots), 0]
