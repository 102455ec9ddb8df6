"""A conversation: every question is asked with all that was said before, of which the model's cache still holds most.

    wgpu-engine pull smollm2
    python examples/chat.py [MODEL]

Ask in the terminal, or through a pipe with a question a line; an empty line ends it. The program is asynchronous, as a
server's would be: other tasks run while the model thinks.
"""

import asyncio
import sys

from wgpu_engine import LLM
from wgpu_engine.errors import ContextFullError


async def main(model: str) -> None:
    with LLM(model) as llm:
        messages = [{"role": "system", "content": "You are a helpful assistant. Answer in a sentence or two."}]
        while question := (await asyncio.to_thread(read_question)).strip():
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": await answer(llm, messages)})


async def answer(llm: LLM, messages: list[dict[str, str]]) -> str:
    """Prints the answer as it comes, and returns all of it."""
    text = ""
    try:
        async for chunk in llm.achat(messages, max_tokens=200):
            text += chunk.text
            print(chunk.text, end="", flush=True)
    except ContextFullError:
        # too much was said: forget the oldest question and its answer, and ask again
        if len(messages) < 4:
            raise
        del messages[1:3]
        return await answer(llm, messages)
    print()
    return text


def read_question() -> str:
    if sys.stdin.isatty():
        print("> ", end="", flush=True)
    return sys.stdin.readline()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "smollm2"))
