"""Which experts of a mixture each row goes to, chosen on the device."""

from dataclasses import dataclass
from typing import Literal

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import PlanBuilder, op, row_floats

MOST_EXPERTS = 512
"""of which workgroup memory of 16 KiB has room for four words each"""
Shares = Literal["all", "chosen", "sigmoid"]
"""what an expert's share is: its part in a softmax of all logits or of the chosen ones, or the sigmoid of its own"""
_GROUP_SIZES = (1, 4, 8, 32)
"""columns that a workgroup may make, at most, with one expert's weights"""
_FEW_ROWS = 8
"""rows that one workgroup chooses for and groups, in one dispatch"""


@dataclass(frozen=True)
class Routing:
    """What `shaders/experts/route.wgsl` says of each row's experts."""

    experts: int
    used: int
    """experts of each row"""
    rows: int
    """that there is room for"""
    group_size: int
    """as many rows as an expert may well get"""
    choices: Buffer
    """[rows, used], an expert and its share, in order of the experts' numbers"""
    groups: Buffer
    """pairs of a row and an expert, by expert"""

    @property
    def pairs(self) -> int:
        return self.rows * self.used

    @property
    def most_groups(self) -> int:
        """Groups that there may be."""
        return _most_groups(self.pairs, self.experts, self.group_size)


def _most_groups(pairs: int, experts: int, size: int) -> int:
    return (pairs + min(experts, pairs) * (size - 1)) // size


@op
def route(
    builder: PlanBuilder, logits: Buffer, experts: int, used: int, *, shares: Shares, scale: float = 1.0
) -> Routing:
    """The `used` experts of the largest logits [rows, experts] of each row.

    Shares are times `scale`.
    """
    assert 0 < used <= experts <= MOST_EXPERTS
    rows = builder.rows
    pairs = rows * used
    size = next((size for size in _GROUP_SIZES if size * experts >= pairs), _GROUP_SIZES[-1])
    most = _most_groups(pairs, experts, size)
    routing = Routing(
        experts,
        used,
        rows,
        size,
        builder.buffer(8 * pairs, f"choices of {experts}"),
        builder.buffer(4 * (4 + 4 * most + pairs), f"groups of {experts}"),
    )
    # (choose, group) of each dispatch
    for choose, group in [(True, True)] if rows <= _FEW_ROWS else [(True, False), (False, True)]:
        shader = builder.shader(
            "experts/route.wgsl",
            f"{used} of {experts}",
            choose=choose,
            group=group,
            experts=experts,
            used=used,
            logit_stride=row_floats(experts),
            shares=shares,
            scale=scale,
            group_size=size,
            most_groups=most,
            threads=256 if group else 64,
        )
        buffers = (
            builder.state,
            routing.choices,
            *((logits,) if choose else ()),
            *((routing.groups,) if group else ()),
        )
        builder.add(shader, buffers, (1, 1 if group else rows, 1))
    return routing
