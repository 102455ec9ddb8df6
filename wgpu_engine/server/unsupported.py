"""Fields of other servers that ask for what this one can't do yet: they are refused, since silence would mislead."""

from collections.abc import Mapping
from typing import Any

from wgpu_engine.server.errors import ApiError

_NOTHING: tuple[Any, ...] = (None, "", [], {})
"""what asks for nothing, of whatever field"""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    # ways to sample
    "typical_p": (1,),
    "typ_p": (1,),
    "tfs_z": (1,),
    "top_a": (0,),
    "top_n_sigma": (-1, 0),
    "mirostat": (0,),
    "mirostat_mode": (0,),
    "dry_multiplier": (0,),
    "xtc_probability": (0,),
    "dynatemp_range": (0,),
    "adaptive_target": (-1,),
    "samplers": (),
    "repeat_last_n": (-1,),
    "length_penalty": (0, 1),
    "use_beam_search": (False,),
    "min_tokens": (0,),
    "n_predict": (-1,),
    "bad_words": (),
    "allowed_token_ids": (),
    "stop_token_ids": (),
    "include_stop_str_in_output": (False,),
    "truncate_prompt_tokens": (),
    # other forms of log-probabilities
    "n_probs": (0,),
    "prompt_logprobs": (),
    "post_sampling_probs": (False,),
    # structured output and tools
    "grammar": (),
    "json_schema": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "functions": (),
    # other prompts
    "chat_template": (),
    "documents": (),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    # other kinds of input and output
    "modalities": (["text"],),
    "audio": (),
    "images": (),
    "prediction": (),
    "web_search_options": (),
    "lora": (),
}
"""fields that this version doesn't know, with the values that change nothing"""
_INSTEAD = {"n_probs": "ask for logprobs instead", "n_predict": "give max_tokens instead"}


def check_unknown(fields: Mapping[str, Any], answers: int) -> None:
    """Raises ApiError for the first of a request's fields beyond the schema that asks for what there is not.

    `answers` are those of a prompt, of which `best_of` may not be more.
    """
    neutral = _NEUTRAL | {"best_of": (answers,)}
    for name, value in fields.items():
        if name in neutral and value not in _NOTHING and value not in neutral[name]:
            refuse(name)


def refuse(name: str) -> None:
    """Raises ApiError: a field asks for what this version can't do."""
    message = f"{name} is not supported yet: {_INSTEAD.get(name, 'leave it out')}"
    raise ApiError(400, message, param=name, code="unsupported")
