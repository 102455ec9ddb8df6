"""Loads a model and lets it go on from two texts: at once, and piece by piece.

wgpu-engine pull smollm2
python examples/hello.py [MODEL]
"""

import sys

from wgpu_engine import LLM

with LLM(sys.argv[1] if len(sys.argv) > 1 else "smollm2") as llm:
    prompt = "The capital of France is"
    print(prompt + llm.generate(prompt, temperature=0, max_tokens=12).text)

    prompt = "Once upon a time"
    print(prompt, end="")
    for chunk in llm.generate(prompt, max_tokens=60, seed=1, stream=True):
        print(chunk.text, end="", flush=True)
    print()
