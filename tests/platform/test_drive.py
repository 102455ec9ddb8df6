import asyncio

import pytest

from wgpu_engine.platform.drive import drive


async def _double(number: int) -> int:
    return 2 * number


async def _quadruple(number: int) -> int:
    return await _double(await _double(number))


def test_returns_the_result() -> None:
    assert drive(_quadruple(3)) == 12


def test_works_inside_a_loop() -> None:
    async def inside() -> int:
        return drive(_quadruple(1))

    assert asyncio.run(inside()) == 4


def test_passes_errors_on() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        drive(fail())


def test_refuses_to_wait() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        drive(asyncio.sleep(0))
