"""`wgpu-engine chat`: a conversation in the terminal."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from wgpu_engine.cli import terminal
from wgpu_engine.cli.loading import open_llm
from wgpu_engine.cli.options import ModelName, ModelOptions, SamplingOptions
from wgpu_engine.cli.run import figures
from wgpu_engine.errors import ContextFullError, DeviceLostError, EngineError, RequestError, UnsupportedModelError

if TYPE_CHECKING:
    from wgpu_engine.engine.llm import LLM
    from wgpu_engine.engine.sequence import Timings

_HELP = """\
/reset         forget the conversation, keep the system prompt
/system TEXT   set the system prompt and start anew; without TEXT, drop it
/help          show this
/exit          leave, as does Ctrl-D
Ctrl-C         stop the answer"""

_FULL = "the context is full: /reset starts anew, and --ctx-size makes more room."


def chat(options: ModelOptions, sampling: SamplingOptions, model: ModelName = "smollm2") -> None:
    """Talk with a model. /help shows the commands; Ctrl-C stops an answer, Ctrl-D leaves.

    Examples:
      wgpu-engine chat smollm2
      wgpu-engine chat ./model.gguf --ctx-size 8192 -t 0.3
      wgpu-engine chat smollm2 --device 1 --seed 42
    """
    with open_llm(model, options) as llm:
        if llm.chat_template is None:
            raise UnsupportedModelError(
                f'{model} has no chat template, so it can\'t hold a conversation: use "wgpu-engine run" with it'
            )
        interactive = sys.stdin.isatty() and sys.stdout.isatty()
        if interactive:
            terminal.note(f"{model} on {llm.adapter.name} · context of {llm.ctx_size} tokens · /help for help")
        with _line_editing(interactive):
            Conversation(llm, sampling).talk(_lines(interactive))


class Conversation:
    """The messages so far, and what to do with the next line.

    Invariant: apart from a system message in front, user and assistant alternate and the assistant is last.
    """

    def __init__(self, llm: "LLM", sampling: SamplingOptions) -> None:
        self.llm = llm
        self.sampling = sampling
        self.messages: list[dict[str, str]] = []

    def talk(self, lines: Iterator[str]) -> None:
        """Answer line after line until they end or one says /exit."""
        for line in lines:
            line = line.strip()
            if line in ("/exit", "/quit"):
                return
            if line.startswith("/"):
                self.command(line)
            elif line:
                self.answer(line)

    def command(self, line: str) -> None:
        """Do what a line that begins with a slash says."""
        name, _, text = line.partition(" ")
        if name == "/reset":
            self.messages = [message for message in self.messages if message["role"] == "system"]
            terminal.note("the conversation starts anew.")
        elif name == "/system":
            text = text.strip()
            self.messages = [{"role": "system", "content": text}] if text else []
            terminal.note(f"system prompt {'set' if text else 'dropped'}; the conversation starts anew.")
        elif name == "/help":
            terminal.note(_HELP)
        else:
            terminal.note(f"there is no command {name}: /help shows those there are.")

    def answer(self, line: str) -> None:
        """Stream the answer to `line` and remember both; an answer cut short is remembered as far as it came."""
        messages = [*self.messages, {"role": "user", "content": line}]
        try:
            text, finish_reason, timings = self._stream(messages)
        except ContextFullError:
            terminal.complain(_FULL)
            return
        except DeviceLostError:
            raise
        except EngineError as error:
            terminal.complain(str(error))
            return
        if text:
            self.messages = [*messages, {"role": "assistant", "content": text}]
        if timings is not None:
            terminal.note(figures(timings))
        if finish_reason is None:
            terminal.note("stopped.")
        elif finish_reason == "length" and not self._cut_by_max_tokens(timings):
            terminal.complain(_FULL)

    def _cut_by_max_tokens(self, timings: "Timings | None") -> bool:
        limit = self.sampling.max_tokens
        return limit is not None and timings is not None and timings.completion_tokens >= limit

    def _stream(self, messages: list[dict[str, str]]) -> "tuple[str, str | None, Timings | None]":
        """Text, finish reason (None where Ctrl-C came first) and figures of the answer, shown as it comes."""
        pieces: list[str] = []
        finish_reason: str | None = None
        timings: Timings | None = None
        with _ctrl_c_noted() as pressed, contextlib.suppress(KeyboardInterrupt):
            try:
                chunks: Any = self.llm.chat(messages, stream=True, **self.sampling.keywords())
                with contextlib.closing(chunks):
                    for chunk in chunks:
                        pieces.append(chunk.text)
                        terminal.write(chunk.text)
                        timings = chunk.timings or timings
                        finish_reason = chunk.finish_reason
                        if pressed():
                            break
            finally:
                if pieces or pressed():
                    terminal.write("\n")
        return "".join(pieces), finish_reason, timings


@contextlib.contextmanager
def _ctrl_c_noted() -> Iterator[Callable[[], bool]]:
    """Within the block the first Ctrl-C is only noted, so that it can't strike amid a call of the driver.

    A second one interrupts all the same, for an answer whose first token is long in coming.
    """
    presses = 0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: presses > 0
    finally:
        signal.signal(signal.SIGINT, before)


def _lines(interactive: bool) -> Iterator[str]:
    """Lines that the user types, until Ctrl-D; Ctrl-C at the prompt drops the line."""
    while True:
        try:
            yield input("> " if interactive else "")
        except KeyboardInterrupt:
            terminal.write("\n")
            terminal.note("Ctrl-D or /exit leaves.")
        except EOFError:
            if interactive:
                terminal.write("\n")
            return
        except UnicodeDecodeError as error:
            raise RequestError("the input is not text in this terminal's encoding: send UTF-8") from error


@contextlib.contextmanager
def _line_editing(interactive: bool) -> Iterator[None]:
    """Arrow keys and a history kept between runs, where Python has readline (not on Windows, whose console edits)."""
    try:
        import readline
    except ImportError:
        yield
        return
    if not interactive:
        yield
        return
    history = _history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(1000)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
            history.chmod(0o600)


def _history_file() -> Path:
    from platformdirs import user_state_path

    return user_state_path("wgpu-engine") / "chat-history"
