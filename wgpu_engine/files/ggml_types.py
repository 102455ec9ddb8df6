"""Names of every tensor type id that GGUF files use, also of those that no shader decodes yet.

Ids: llama.cpp, ggml/include/ggml.h, `enum ggml_type`. Types that can run are in `quants.py`; nothing here needs a
change when one is added there.
"""

from wgpu_engine.files.quants import BY_GGML_ID

_NAMES = (
    "F32 F16 Q4_0 Q4_1 Q4_2 Q4_3 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S "
    "IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 Q4_0_4_4 Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 IQ4_NL_4_4 "
    "IQ4_NL_4_8 IQ4_NL_8_8 MXFP4 NVFP4 Q1_0 Q2_0"
)
"""in the order of their ids"""

GGML_NAMES: dict[int, str] = dict(enumerate(_NAMES.split())) | {id_: t.name for id_, t in BY_GGML_ID.items()}


def supported_types() -> str:
    """The types that can run, as a list for a message."""
    return ", ".join(quant.name for quant in BY_GGML_ID.values())
