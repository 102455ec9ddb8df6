"""Fixtures that every room's tests share."""

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

import wgpu_engine.engine.loading
from tests.llama_file import LlamaFile
from tests.llama_folder import LlamaFolder
from wgpu_engine.engine.service import Service
from wgpu_engine.errors import ModelNotFoundError
from wgpu_engine.files.store import HOME_VARIABLE, Store
from wgpu_engine.gpu import wgsl
from wgpu_engine.gpu.native import NativeDevice, open_device
from wgpu_engine.ops.builder import SLOT_WORDS, PlanBuilder, ScratchPool
from wgpu_engine.platform.drive import drive

ROOT = Path(__file__).parent.parent

BuilderFactory = Callable[..., PlanBuilder]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in browsers come last: they keep several cores busy, of which other test runs may still have some."""
    items.sort(key=lambda item: "browser" in item.path.parts)


@pytest.fixture(scope="session", autouse=True)
def heed_ctrl_c() -> None:
    """Tests in the background of a shell are started with Ctrl-C ignored, which the programs they start inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in the user's place: with their models, but without what was found of adapters before."""
    models, folder = Store().folder, tmp_path_factory.mktemp("home")
    if models.is_dir():
        (folder / models.name).symlink_to(models, target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(folder))
        yield folder


@pytest.fixture(scope="session")
def conformance() -> Path:
    """Folder of inputs and expected values from independent implementations; skips where it is absent."""
    folder = Path(os.environ.get("WGPU_ENGINE_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
    if not folder.is_dir():
        pytest.skip("conformance data is absent: set WGPU_ENGINE_CONFORMANCE to its folder")
    return folder


@pytest.fixture(scope="session")
def device() -> Iterator[NativeDevice]:
    """The one device of a test run; tests that break a device open their own."""
    opened = drive(open_device())
    yield opened
    opened.close()


@pytest.fixture
def builder(device: NativeDevice) -> Iterator[BuilderFactory]:
    """Makes plan builders with scratch memory of their own: `builder(rows, outputs=0, precision="exact", slots=1)`.

    All their buffers are freed after the test.
    """
    made: list[PlanBuilder] = []

    def make(rows: int, outputs: int = 0, precision: Literal["exact", "fast"] = "exact", slots: int = 1) -> PlanBuilder:
        slot_words = device.buffer(4 * SLOT_WORDS * slots, "slots")
        made.append(PlanBuilder(device, rows, outputs, precision, slot_words, ScratchPool(device)))
        return made[-1]

    yield make
    for each in made:
        each.pool.free()
        device.free(each.slots)
        device.free(each.state)


@pytest.fixture(scope="module")
def no_kernel_check() -> Iterator[None]:
    """Loads models without a check of their kernels, which has tests of its own and takes a while."""

    async def nothing(*_: Any) -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wgpu_engine.engine.loading, "check_kernels", nothing)
        yield


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Changes what templates become: `spoil("rope/", "old", "new")`, as a broken compiler might."""

    def change(template: str, old: str, new: str) -> None:
        render = wgsl._render

        def spoiled(name: str, dialect: str, values: tuple[tuple[str, object], ...]) -> str:
            source = render(name, dialect, values)
            return source.replace(old, new) if name.startswith(template) else source

        monkeypatch.setattr(wgsl, "_render", spoiled)

    return change


@pytest.fixture
def lose() -> Callable[[Service], None]:
    """Destroys a service's device at its next step, in its own thread and while nothing is in flight.

    The library ends the process where a buffer is read that a device took along when it was destroyed.
    """

    def at_next_step(service: Service) -> None:
        scheduler, device = service.scheduler, service.loaded.device
        step = scheduler.step

        async def lost() -> None:
            await scheduler.drain()
            device._device.destroy()
            await step()

        scheduler.step = lost  # type: ignore[method-assign]

    return at_next_step


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers from a fresh seed, which a failing test shows; WGPU_ENGINE_SEED=<seed> repeats it."""
    seed = int(os.environ.get("WGPU_ENGINE_SEED", secrets.randbits(32)))
    print(f"WGPU_ENGINE_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a random llama of about 300 tokens: `tiny_llama(layers=3, tied=False, …)`, see LlamaFile."""
    folder, numbers = tmp_path_factory.mktemp("llamas"), count()
    return lambda **changes: LlamaFile(folder / f"llama-{next(numbers)}.gguf", **changes).write()


@pytest.fixture(scope="session")
def tiny_lfm2(tiny_llama: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a random LFM2: `tiny_lfm2("ccac", kernel=3, biases=False, …)`, with what else LlamaFile takes.

    A letter stands for a layer: c for a convolution, a for attention with one key head.
    """

    def write(layers: str = "ccac", kernel: int = 3, biases: bool = False, width: int = 64, **changes: Any) -> Path:
        rng = np.random.default_rng(len(layers) + kernel)
        tensors: dict[str, NDArray[np.float32] | None] = {"output.weight": None, "output_norm.weight": None}
        sizes: dict[str, tuple[int, ...]] = {"token_embd_norm.weight": (width,)}
        for i, letter in enumerate(layers):
            prefix = f"blk.{i}."
            if letter == "a":
                sizes |= {f"{prefix}attn_{name}_norm.weight": (32,) for name in "qk"}
                continue
            tensors |= {f"{prefix}attn_{name}.weight": None for name in ("q", "k", "v", "output")}
            for name, rows, columns in (
                ("in_proj", 3 * width, width),
                ("conv", width, kernel),
                ("out_proj", width, width),
            ):
                sizes[f"{prefix}shortconv.{name}.weight"] = (rows, columns)
                if biases:
                    sizes[f"{prefix}shortconv.{name}.bias"] = (rows,)
        for name, size in sizes.items():
            around = 1 if "norm" in name else 0
            tensors[name] = rng.normal(around, 0.5 if len(size) == 1 else size[-1] ** -0.5, size).astype(np.float32)
        metadata = {
            "attention.head_count_kv": [int(letter == "a") for letter in layers],
            "shortconv.l_cache": kernel,
        }
        return tiny_llama(
            architecture="lfm2",
            layers=len(layers),
            width=width,
            tensors=tensors | dict(changes.pop("tensors", {})),
            metadata=metadata | dict(changes.pop("metadata", {})),
            **changes,
        )

    return write


@pytest.fixture(scope="session")
def stories(conformance: Path) -> Path:
    """A real llama of 260,000 parameters that tells stories."""
    return conformance / "logits" / "stories260K.gguf"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The default model; skips where it has not been pulled. Tests that use it carry the marker `model`."""
    try:
        return Store().find("smollm2")
    except ModelNotFoundError:
        pytest.skip("the default model is absent: run `wgpu-engine pull smollm2`")


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2; skips where it was not pulled. Tests that use it carry the marker `model`."""
    try:
        return Store().find("minilm")
    except ModelNotFoundError:
        pytest.skip("all-MiniLM-L6-v2 is absent: run `wgpu-engine pull minilm`")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a random llama of one layer as a folder: `tiny_folder(dtype="F16", shards=2, …)`, see LlamaFolder."""
    folder, numbers = tmp_path_factory.mktemp("folders"), count()
    return lambda **changes: LlamaFolder(folder / f"llama-{next(numbers)}", **changes).write()
