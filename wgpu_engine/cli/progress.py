"""Progress bars on stderr for what takes a while: fetching a model and loading it. Silent where nobody looks on."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_STAGES = {
    "download": "fetching",
    "unpack": "unpacking",
    "verify": "checking",
    "weights": "loading weights",
    "quantize": "quantizing",
    "kernels": "compiling kernels",
    "texts": "embedding",
    "pyodide": "fetching Pyodide",
    "bytecode": "compiling Python",
    "models": "copying models",
}
_IN_BYTES = {"download", "unpack", "verify", "weights", "quantize", "models"}


class ProgressDisplay:
    """Callable for `progress(stage, done, total)`: a bar for each stage, gone when the block ends.

    Stages in `_IN_BYTES` show bytes, speed and the time left; others are counted. A stage's first word says which it
    is, the rest ("download part 2 of 3") is shown as it comes.
    """

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "ProgressDisplay":
        if sys.stderr.isatty():
            self._progress = _bars()
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if self._progress is None:
            return
        if stage not in self._tasks:
            kind, _, rest = stage.partition(" ")
            name = f"{_STAGES.get(kind, kind)} {rest}".rstrip()
            self._tasks[stage] = self._progress.add_task(name, total=total, in_bytes=kind in _IN_BYTES)
        self._progress.update(self._tasks[stage], completed=done, total=total)


def _bars() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Amount(ProgressColumn):
        """Bytes and speed, or a count, as the task says."""

        bytes_done, speed, count = DownloadColumn(binary_units=True), TransferSpeedColumn(), MofNCompleteColumn()

        def render(self, task: Task) -> Text:
            if not task.fields["in_bytes"]:
                return self.count.render(task)
            return Text.assemble(self.bytes_done.render(task), "  ", self.speed.render(task))

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        Amount(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
