"""`wgpu-engine run`: one prompt, one answer."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.loading import open_llm
from wgpu_engine.cli.options import AsJson, ModelName, ModelOptions, SamplingOptions
from wgpu_engine.errors import RequestError

if TYPE_CHECKING:
    from wgpu_engine.engine.llm import LLM
    from wgpu_engine.engine.sequence import Timings


def run(
    options: ModelOptions,
    sampling: SamplingOptions,
    model: ModelName = "smollm2",
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The prompt; read from stdin where absent or `-`.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the prompt as it is, without a chat template.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer one prompt. The answer goes to stdout as it comes, figures to stderr.

    Examples:
      wgpu-engine run smollm2 "Why is the sky blue?"
      wgpu-engine run smollm2 --raw -t 0 -n 32 "The capital of France is"
      cat notes.txt | wgpu-engine run smollm2
      wgpu-engine run smollm2 --json --seed 1 "Name a colour" > answer.json
    """
    if prompt is None or prompt == "-":
        prompt = _read_prompt(model)
    with open_llm(model, options) as llm:
        if as_json:
            _answer_as_json(llm, model, prompt, raw, sampling)
        else:
            _stream_answer(llm, prompt, raw, sampling)


def _read_prompt(model: str) -> str:
    if sys.stdin is None or sys.stdin.isatty():
        # the model is named, since a lone prompt is taken for it
        raise RequestError(
            f"there is no prompt for the model {model!r:.80}: add one in quotes after the model, pipe one in, or talk "
            "with `wgpu-engine chat`"
        )
    try:
        prompt = sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise RequestError("the prompt on stdin is not UTF-8 text: convert it first") from error
    if not prompt:
        raise RequestError("the prompt on stdin is empty: pipe text in, or add a prompt in quotes after the model")
    return prompt


def ask(llm: "LLM", prompt: str, raw: bool, **keywords: Any) -> Any:
    """The answer to `prompt`: through the model's chat template, or raw where it has none or so wished."""
    if raw or llm.chat_template is None:
        return llm.generate(prompt, **keywords)
    return llm.chat([{"role": "user", "content": prompt}], **keywords)


def _stream_answer(llm: "LLM", prompt: str, raw: bool, sampling: SamplingOptions) -> None:
    timings: Timings | None = None
    try:
        for chunk in ask(llm, prompt, raw, stream=True, **sampling.keywords()):
            terminal.write(chunk.text)
            timings = chunk.timings or timings
    except KeyboardInterrupt:
        terminal.write("\n")
        raise
    terminal.write("\n")
    if timings is not None:
        terminal.note(figures(timings))


def _answer_as_json(llm: "LLM", model: str, prompt: str, raw: bool, sampling: SamplingOptions) -> None:
    answer = ask(llm, prompt, raw, **sampling.keywords())
    timings = answer.timings
    terminal.write_json(
        {
            "model": model,
            "adapter": llm.adapter.name,
            "text": answer.text,
            "tokens": list(answer.tokens),
            "finish_reason": answer.finish_reason,
            "timings": {
                **asdict(timings),
                "prompt_per_s": timings.prompt_per_s,
                "decode_per_s": timings.decode_per_s,
            },
        }
    )


def figures(timings: "Timings") -> str:
    """One line of how fast an answer came."""
    return (
        f"{timings.completion_tokens} tokens at {timings.decode_per_s:.1f} tokens/s · "
        f"prompt of {timings.prompt_tokens} at {timings.prompt_per_s:.1f} tokens/s · "
        f"first token after {timings.first_token_s:.2f} s"
    )
