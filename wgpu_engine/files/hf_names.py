"""Which architectures of Hugging Face folders can be loaded: names of tensors and settings, translated to GGUF's.

To add one, write a file of its family such as `hf_llama.py`, with a table of its tensors and its settings, and an entry
of FAMILIES; nothing else in this room needs a change. What the models' own code (`wgpu_engine/models`) sees is then the
same as from a GGUF file. GGUF's names: gguf-py, tensor_mapping.py and constants.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_bert import BERT_NAMES, bert_settings
from wgpu_engine.files.hf_bitnet import BITNET_NAMES, bitnet_settings
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_gemma import GEMMA_NAMES, OLMO2_NAMES, gemma2_settings, gemma3_settings, olmo2_settings
from wgpu_engine.files.hf_gpt import (
    GPT2_NAMES,
    GPT_NEOX_NAMES,
    PHI_NAMES,
    gpt2_arranged,
    gpt2_settings,
    gpt_neox_arranged,
    gpt_neox_settings,
    phi_settings,
)
from wgpu_engine.files.hf_lfm2 import LFM2_NAMES, lfm2_settings
from wgpu_engine.files.hf_llama import (
    LLAMA_NAMES,
    MIXTRAL_NAMES,
    PHI3_NAMES,
    QWEN2_MOE_NAMES,
    QWEN3_MOE_NAMES,
    QWEN3_NAMES,
    granite_settings,
    llama_settings,
    mistral_settings,
    mixtral_settings,
    phi3_settings,
    qwen2_moe_settings,
    qwen2_settings,
    qwen3_moe_settings,
    smollm3_settings,
)

_NUMBER = re.compile(r"(?<=\.)(?:0|[1-9][0-9]{0,5})(?=\.)")


@dataclass(frozen=True)
class Family:
    """What architectures of the same layout share."""

    architecture: str
    """`general.architecture` in GGUF"""
    names: Mapping[str, str]
    """GGUF's name of each tensor: `#` is a number, the last `*` is `weight` or `bias`; empty for what isn't needed"""
    settings: Callable[[HFConfig], dict[str, Value]]
    """GGUF's settings, without the architecture's prefix; refuses what would be computed wrongly"""
    tied: bool = False
    """whether the output head is the embedding where the configuration doesn't say"""
    arranged: Callable[[HFConfig, TensorInfo], TensorInfo] = lambda config, tensor: tensor
    """a tensor by GGUF's name as GGUF has it, where its values lie otherwise in the file"""

    def translate(self, name: str) -> str | None:
        """GGUF's name of a tensor: empty where it isn't needed, None where the architecture has no such tensor."""
        if "#" in name or "*" in name:
            return None
        pattern, numbers = _NUMBER.sub("#", name), iter(_NUMBER.findall(name))
        found = self.names.get(pattern)
        if found is None:
            stem, _, end = pattern.rpartition(".")
            found = self.names.get(f"{stem}.*") if end in ("weight", "bias") else None
            found = found and found.replace("*", end)
        return found and re.sub("#", lambda _: next(numbers), found)


def family_of(config: HFConfig) -> Family:
    """The family of a model's configuration.

    Raises:
        UnsupportedModelError: an architecture that isn't among FAMILIES.
    """
    named = config.texts("architectures") or [config.text("model_type", "")]
    if named[0] not in FAMILIES:
        raise UnsupportedModelError(
            f"the architecture {show(named[0])} of {config.name} is not supported yet; supported from a folder: "
            f"{', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[named[0]]


FAMILIES = {
    "BertModel": Family("bert", BERT_NAMES, bert_settings, tied=True),
    "BitNetForCausalLM": Family("bitnet", BITNET_NAMES, bitnet_settings),
    "Gemma2ForCausalLM": Family("gemma2", GEMMA_NAMES, gemma2_settings, tied=True),
    "Gemma3ForCausalLM": Family("gemma3", GEMMA_NAMES, gemma3_settings, tied=True),
    "GPT2LMHeadModel": Family("gpt2", GPT2_NAMES, gpt2_settings, tied=True, arranged=gpt2_arranged),
    "GPTNeoXForCausalLM": Family("gptneox", GPT_NEOX_NAMES, gpt_neox_settings, arranged=gpt_neox_arranged),
    "GraniteForCausalLM": Family("granite", LLAMA_NAMES, granite_settings),
    "Lfm2ForCausalLM": Family("lfm2", LFM2_NAMES, lfm2_settings, tied=True),
    "LlamaForCausalLM": Family("llama", LLAMA_NAMES, llama_settings),
    "MistralForCausalLM": Family("llama", LLAMA_NAMES, mistral_settings),
    "MixtralForCausalLM": Family("llama", MIXTRAL_NAMES, mixtral_settings),
    "Olmo2ForCausalLM": Family("olmo2", OLMO2_NAMES, olmo2_settings),
    "Phi3ForCausalLM": Family("phi3", PHI3_NAMES, phi3_settings),
    "PhiForCausalLM": Family("phi2", PHI_NAMES, phi_settings),
    "Qwen2ForCausalLM": Family("qwen2", LLAMA_NAMES, qwen2_settings),
    "Qwen2MoeForCausalLM": Family("qwen2moe", QWEN2_MOE_NAMES, qwen2_moe_settings),
    "Qwen3ForCausalLM": Family("qwen3", QWEN3_NAMES, qwen2_settings),
    "Qwen3MoeForCausalLM": Family("qwen3moe", QWEN3_MOE_NAMES, qwen3_moe_settings),
    "SmolLM3ForCausalLM": Family("smollm3", LLAMA_NAMES, smollm3_settings, tied=True),
}
"""by the class that `architectures` in a config.json names"""
