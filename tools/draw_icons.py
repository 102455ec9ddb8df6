"""Draws the page's icons, as SVG and PNG, into web/icons/: a speech bubble around the tiles of a matrix product."""

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

ICONS = Path(__file__).parent.parent / "web" / "icons"
SIDE = 512
SAMPLES = 3
"""squared, for each pixel"""
NIGHT, PAPER, STONE, LEAF = (0x17, 0x18, 0x16), (0xFA, 0xF9, 0xF6), (0xC4, 0xC3, 0xBB), (0x1F, 0x8A, 0x5B)


@dataclass(frozen=True)
class Box:
    """A rectangle with round corners."""

    x: float
    y: float
    width: float
    height: float
    radius: float
    color: tuple[int, int, int]

    def covers(self, x: float, y: float) -> bool:
        dx = max(self.x + self.radius - x, x - (self.x + self.width - self.radius), 0)
        dy = max(self.y + self.radius - y, y - (self.y + self.height - self.radius), 0)
        inside = self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height
        return inside and dx * dx + dy * dy <= self.radius * self.radius

    def svg(self) -> str:
        return (
            f'<rect x="{self.x:g}" y="{self.y:g}" width="{self.width:g}" height="{self.height:g}" '
            f'rx="{self.radius:g}" fill="{color(self.color)}"/>'
        )


@dataclass(frozen=True)
class Triangle:
    """Corners in clockwise order."""

    corners: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
    color: tuple[int, int, int]

    def covers(self, x: float, y: float) -> bool:
        pairs = zip(self.corners, (*self.corners[1:], self.corners[0]), strict=True)
        return all((bx - ax) * (y - ay) - (by - ay) * (x - ax) >= 0 for (ax, ay), (bx, by) in pairs)

    def svg(self) -> str:
        points = " ".join(f"{x:g},{y:g}" for x, y in self.corners)
        return f'<polygon points="{points}" fill="{color(self.color)}"/>'


def color(rgb: tuple[int, int, int]) -> str:
    return "#" + "".join(f"{value:02x}" for value in rgb)


def shapes(ground: Box) -> list[Box | Triangle]:
    """Everything, the lowest first, in a square of SIDE."""
    bubble: list[Box | Triangle] = [
        Box(112, 96, 288, 272, 64, PAPER),
        Triangle(((176, 340), (272, 352), (176, 432)), PAPER),
    ]
    tiles = [
        Box(166 + 64 * column, 142 + 64 * row, 52, 52, 12, LEAF if column + row == 2 else STONE)
        for row in range(3)
        for column in range(3)
    ]
    return [ground, *bubble, *tiles]


def pixels(size: int, drawn: list[Box | Triangle]) -> bytes:
    """RGBA rows as PNG has them, each after the number of its filter, which is none."""
    step = SIDE / size / SAMPLES
    rows = bytearray()
    for row in range(size):
        rows.append(0)
        for column in range(size):
            total, hits = [0, 0, 0], 0
            for sample in range(SAMPLES * SAMPLES):
                x = (column * SAMPLES + sample % SAMPLES + 0.5) * step
                y = (row * SAMPLES + sample // SAMPLES + 0.5) * step
                found = next((shape.color for shape in reversed(drawn) if shape.covers(x, y)), None)
                if found:
                    hits += 1
                    total = [have + value for have, value in zip(total, found, strict=True)]
            rows += bytes(round(value / max(hits, 1)) for value in total)
            rows.append(round(255 * hits / SAMPLES**2))
    return bytes(rows)


def png(size: int, drawn: list[Box | Triangle]) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(pixels(size, drawn), 9)),
            chunk(b"IEND", b""),
        ]
    )


def main() -> None:
    ICONS.mkdir(exist_ok=True)
    rounded = shapes(Box(0, 0, SIDE, SIDE, 104, NIGHT))
    whole = shapes(Box(0, 0, SIDE, SIDE, 0, NIGHT))
    drawn = "".join(shape.svg() for shape in rounded)
    (ICONS / "icon.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}">{drawn}</svg>\n'
    )
    for name, size, picture in (
        ("icon-192.png", 192, rounded),
        ("icon-512.png", 512, rounded),
        ("icon-maskable-512.png", 512, whole),
    ):
        (ICONS / name).write_bytes(png(size, picture))


if __name__ == "__main__":
    main()
