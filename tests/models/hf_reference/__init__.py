"""What models in Hugging Face folders compute: forward passes in NumPy, in float64, one file a family.

A second opinion: written from the definitions in transformers' modeling files and the meaning of config.json, knowing
nothing of how the engine computes. No library reads or runs the model here.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import bert, bitnet, gemma, gpt2, gpt_neox, granite, lfm2, llama, mixture, olmo2, phi, phi3, smollm3
from .checkpoint import Checkpoint, Doubles, read_folder

FAMILIES: Mapping[str, Callable[[Checkpoint, Sequence[int]], Doubles]] = {
    "BertModel": bert.hidden,
    "BitNetForCausalLM": bitnet.logits,
    "GPT2LMHeadModel": gpt2.logits,
    "GPTNeoXForCausalLM": gpt_neox.logits,
    "Gemma2ForCausalLM": gemma.logits,
    "Gemma3ForCausalLM": gemma.logits,
    "GraniteForCausalLM": granite.logits,
    "Lfm2ForCausalLM": lfm2.logits,
    "LlamaForCausalLM": llama.logits,
    "MistralForCausalLM": llama.logits,
    "MixtralForCausalLM": mixture.logits,
    "Olmo2ForCausalLM": olmo2.logits,
    "Phi3ForCausalLM": phi3.logits,
    "PhiForCausalLM": phi.logits,
    "Qwen2ForCausalLM": llama.logits,
    "Qwen2MoeForCausalLM": mixture.logits,
    "Qwen3ForCausalLM": llama.logits,
    "Qwen3MoeForCausalLM": mixture.logits,
    "SmolLM3ForCausalLM": smollm3.logits,
}
"""by the class that config.json names"""


def run(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    """Logits [tokens, vocab] at every position; of BERT the last hidden states [tokens, width]."""
    return FAMILIES[model.config["architectures"][0]](model, ids)


def run_folder(folder: Path, ids: Sequence[int], **config: Any) -> Doubles:
    """As `run`, straight from a folder; `config` replaces keys of its config.json."""
    model = read_folder(folder)
    return run(Checkpoint(model.config | config, model.tensors), ids)
