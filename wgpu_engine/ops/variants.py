"""The ways to cut a matrix product, of which an adapter's fastest is found by timing them."""

from dataclasses import dataclass

from wgpu_engine.ops.builder import Codec, PlanBuilder, ceil_div


@dataclass(frozen=True)
class Variant:
    """How the work is cut."""

    team: int = 0
    """threads that share a feature's K (`matmul/team.wgsl`); 0: a thread makes four features (`matmul/lanes.wgsl`)"""
    columns: int = 1
    """threads for columns in a workgroup; 1 in a team"""
    tile: int = 1
    """columns a thread"""
    share: bool = False
    """lanes pass activations to each other"""
    pairs: bool = False
    """nibbles are multiplied two at a time, where there is no packed dot product in hardware"""

    @property
    def template(self) -> str:
        return "matmul/team.wgsl" if self.team else "matmul/lanes.wgsl"


@dataclass(frozen=True)
class Problem:
    """What decides which variant is fastest."""

    quant: str
    codec: Codec
    features: int
    k: int
    ports: int
    columns: int


def variants(builder: PlanBuilder, problem: Problem) -> list[Variant]:
    """Those that can run here and give the same results, the default of the adapter's kind first."""
    share = builder.shuffle
    one = problem.columns == 1
    q8 = problem.codec == "q8"
    limits = builder.device.limits
    teams = [
        Variant(team=team, tile=min(problem.columns, 4))
        for team in (8, 4, 16)
        if problem.columns <= 8
        and 32 * team <= limits.invocations
        and _team_bytes(problem, team) <= limits.workgroup_bytes
    ]
    if builder.device.adapter.kind == "cpu":
        tiles = (1,) if one else (8, 4, 16) if q8 else (8, 4)
        lanes = [Variant(tile=tile, share=share, pairs=q8) for tile in tiles]
        return [*lanes, Variant(tile=tiles[0], pairs=q8), Variant(tile=tiles[0], share=share), *teams]
    lanes = (
        [Variant()] if one else [Variant(columns=8, tile=4), Variant(columns=16, tile=4), Variant(columns=8, tile=8)]
    )
    return [*teams, *lanes, *([Variant(tile=lanes[0].tile, share=True)] if share else [])]


def _team_bytes(problem: Problem, team: int) -> int:
    runs = ceil_div(problem.k, 256) if problem.codec == "f32" else team
    return 4 * (32 * problem.ports * runs + 32 * team)
