"""Chat templates for files that bring none, chosen by the markers that the vocabulary has.

The formats are those that the models were trained on; the templates are ours. They take `system` (first only), `user`
and `assistant` messages, and no tools.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class BuiltinTemplate:
    """A chat format and how to tell that a model speaks it."""

    name: str
    source: str
    markers: tuple[str, ...] = ()
    """tokens that are in the vocabulary"""
    lacks: tuple[str, ...] = ()
    """tokens that are not"""
    named: tuple[str, ...] = ()
    """parts of the model's name, of which all are there, in lower case"""


_SYSTEM_INTO_USER = """\
{%- set system = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}
{%- set turns = messages[1:] if system else messages %}
"""

_CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""

_PHI4 = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '<|im_sep|>' + message.content + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}
"""

_LLAMA3 = """\
{{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}
"""

_LLAMA2 = """\
{%- set system = messages[0].content if messages[0].role == 'system' else '' %}
{%- for message in (messages[1:] if system else messages) %}
{%- if message.role == 'user' %}
{{- bos_token + '[INST] ' }}
{%- if loop.first and system %}{{ '<<SYS>>\\n' + system | trim + '\\n<</SYS>>\\n\\n' }}{% endif %}
{{- message.content | trim + ' [/INST]' }}
{%- else %}
{{- ' ' + message.content | trim + ' ' + eos_token }}
{%- endif %}
{%- endfor %}
"""

_GEMMA = (
    "{{- bos_token }}\n"
    + _SYSTEM_INTO_USER
    + """\
{%- for message in turns %}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}
{{- (system if loop.first else '') + message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""
)

_PHI3 = """\
{%- for message in messages %}
{{- '<|' + message.role + '|>\\n' + message.content + '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}
"""

_ZEPHYR = """\
{%- for message in messages %}
{{- '<|' + message.role + '|>\\n' + message.content + eos_token + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}
"""

# No spaces round the text: a SentencePiece vocabulary puts one after each marker itself.
_MISTRAL = (
    "{{- bos_token }}\n"
    + _SYSTEM_INTO_USER
    + """\
{%- for message in turns %}
{%- if message.role == 'user' %}
{{- '[INST]' + (system if loop.first else '') + message.content + '[/INST]' }}
{%- else %}
{{- message.content | trim + eos_token }}
{%- endif %}
{%- endfor %}
"""
)

BUILTIN_TEMPLATES = (
    BuiltinTemplate("phi4", _PHI4, markers=("<|im_start|>", "<|im_sep|>", "<|im_end|>")),
    BuiltinTemplate("chatml", _CHATML, markers=("<|im_start|>", "<|im_end|>"), lacks=("<|im_sep|>",)),
    BuiltinTemplate("llama3", _LLAMA3, markers=("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")),
    BuiltinTemplate("gemma", _GEMMA, markers=("<start_of_turn>", "<end_of_turn>")),
    BuiltinTemplate("phi3", _PHI3, markers=("<|user|>", "<|assistant|>", "<|end|>")),
    BuiltinTemplate("zephyr", _ZEPHYR, markers=("<|user|>", "<|assistant|>"), lacks=("<|end|>",)),
    BuiltinTemplate("mistral", _MISTRAL, markers=("[INST]", "[/INST]")),
    BuiltinTemplate("zephyr", _ZEPHYR, markers=("</s>",), named=("zephyr",)),
    BuiltinTemplate("zephyr", _ZEPHYR, markers=("</s>",), named=("tinyllama", "chat")),
    BuiltinTemplate("llama2", _LLAMA2, markers=("<s>", "</s>"), named=("llama-2", "chat")),
    BuiltinTemplate("llama2", _LLAMA2, markers=("<s>", "</s>"), named=("llama 2", "chat")),
)
"""The first that fits is used."""
