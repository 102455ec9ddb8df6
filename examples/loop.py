"""The whole of inference in one file, from the bytes on the disk to text, on the package's own rooms.

    wgpu-engine pull smollm2
    python examples/loop.py [MODEL] [PROMPT]

`LLM` does the same, and more: it reuses the cache, stops at strings, checks memory and kernels, and waits for its turn.
"""

import asyncio
import sys

from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.files.model_file import open_model
from wgpu_engine.files.store import Store
from wgpu_engine.gpu.native import open_device
from wgpu_engine.models.registry import load_model
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.state import Row, decode_row
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.detokenizer import Detokenizer
from wgpu_engine.text.tokenizer import Tokenizer
from wgpu_engine.text.tokenizer_json import tokenizer_json
from wgpu_engine.text.vocabulary import Vocabulary

MAX_TOKENS = 60
CONTEXT = 512
SLOT = 0  # the engine keeps several sequences apart by their slots; here there is one


async def main(model_name: str, prompt: str) -> None:
    # The best adapter that WebGPU finds: a discrete GPU, else an integrated one, else a driver on the CPU.
    device = await open_device()

    # A GGUF file holds metadata, the vocabulary among it, and tensors. Only its header is read here.
    file = await open_model(Store().find(model_name))

    # The weights go to the GPU in chunks, still quantized, and are laid out there for the kernels.
    loader = Loader(device, lambda loaded_bytes: None)
    model = await load_model(device, file.metadata, file.tensors, loader)
    await loader.finish()

    # Text becomes numbers: a token is a piece of a word, its id a row of the model's table of embeddings.
    vocabulary = Vocabulary.from_metadata(file.metadata)
    tokenizer = Tokenizer(vocabulary, TokenizersEncoder(tokenizer_json(vocabulary)))
    ids = tokenizer.encode(prompt)
    file.close()

    # The engine owns the cache of keys and values: what attention has to remember of every token. It is paged, so a
    # sequence takes blocks of it as it grows.
    engine = Engine(device, model, ctx_size=CONTEXT)

    # How to choose among the likeliest tokens is written into the sequence's slot on the GPU, since that is where the
    # choice is made: 4 bytes a token come back, and not a probability for each word of the language.
    params = SamplingParams(temperature=0.8, top_k=40, top_p=0.95)
    engine.set_slot(SLOT, params.slot_words(seed=1, count=0))

    # Prefill. All the tokens of the prompt are known, so many go through the model at once, and every weight that is
    # read serves all of them. Only the last row needs an output: the first token of the answer.
    engine.reserve(SLOT, len(ids))
    for start in range(0, len(ids), engine.prefill_rows):
        chunk = ids[start : start + engine.prefill_rows]
        rows = [Row(token, start + i, SLOT) for i, token in enumerate(chunk)]
        end = start + len(chunk)
        pending = await engine.step(rows, outputs=[len(rows) - 1] if end == len(ids) else [], reach=end)

    # Decode. Each step takes one token through the whole model to get the next, and so reads every weight once: its
    # speed is that of the memory. The row of a step says "what was sampled last", so the host does not have to know
    # the token to queue the next step, and the GPU has no gap while this loop prints.
    print(prompt, end="")
    detokenizer = Detokenizer(tokenizer, after=ids[-1])
    for number in range(min(MAX_TOKENS, CONTEXT - len(ids))):
        engine.reserve(SLOT, len(ids) + number + 1)
        following = await engine.step([decode_row(SLOT)], outputs=[0], reach=len(ids) + number + 1)

        # Wait for the step before the one that was just queued.
        token = (await engine.receive_sampled(pending))(SLOT, number)
        pending = following
        if token in vocabulary.end_ids:
            break

        # A token may end within a character, whose bytes are then held until it is whole.
        print(detokenizer.push(token), end="", flush=True)
    print(detokenizer.finish())
    device.close()


defaults = ["smollm2", "The sky is blue because"]
asyncio.run(main(*sys.argv[1:], *defaults[len(sys.argv) - 1 :]))
