"""BERT in Hugging Face folders, as sentence-transformers publishes it: names of tensors, and settings.

Names: transformers, modeling_bert.py. How tokens become an embedding stands in files of its own beside config.json.
"""

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_gpt import MOST_HEADS, MOST_LAYERS, activation

SENTENCE_FILES = ("1_Pooling/config.json", "sentence_bert_config.json")
"""files of sentence-transformers, which are sections of the configuration under these names"""
_POOLING = {"pooling_mode_mean_tokens": 1, "pooling_mode_cls_token": 2}
"""GGUF's numbers, by the flag that chooses them"""

_BERT = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.position_ids": "",
    "embeddings.LayerNorm.*": "token_embd_norm.*",
    "encoder.layer.#.attention.self.query.*": "blk.#.attn_q.*",
    "encoder.layer.#.attention.self.key.*": "blk.#.attn_k.*",
    "encoder.layer.#.attention.self.value.*": "blk.#.attn_v.*",
    "encoder.layer.#.attention.output.dense.*": "blk.#.attn_output.*",
    "encoder.layer.#.attention.output.LayerNorm.*": "blk.#.attn_output_norm.*",
    "encoder.layer.#.intermediate.dense.*": "blk.#.ffn_up.*",
    "encoder.layer.#.output.dense.*": "blk.#.ffn_down.*",
    "encoder.layer.#.output.LayerNorm.*": "blk.#.layer_output_norm.*",
    # of the first token, for tasks that aren't ours
    "pooler.dense.*": "",
}
BERT_NAMES = {**_BERT, **{f"bert.{name}": to for name, to in _BERT.items()}}


def bert_settings(config: HFConfig) -> dict[str, Value]:
    """GGUF's settings, and two that it lacks: the activation function, and the most tokens of a text.

    Raises:
        UnsupportedModelError: positions or a pooling that this version can't compute.
    """
    kind = config.text("position_embedding_type", "absolute")
    if kind != "absolute":
        raise UnsupportedModelError(
            f"the positions of {config.name} are {show(kind)}, which is not supported: use a model of absolute ones"
        )
    context = config.count("max_position_embeddings", 512)
    sentence = config.section("sentence_bert_config.json") or HFConfig(config.name, {})
    return {
        "context_length": context,
        "most_tokens": min(context, sentence.count("max_seq_length", context)),
        "block_count": config.count("num_hidden_layers", largest=MOST_LAYERS),
        "embedding_length": config.count("hidden_size"),
        "feed_forward_length": config.count("intermediate_size"),
        "attention.head_count": config.count("num_attention_heads", largest=MOST_HEADS),
        "attention.layer_norm_epsilon": config.number("layer_norm_eps", 1e-12),
        "activation": activation(config, "hidden_act", "gelu"),
        "pooling_type": _pooling(config),
    }


def _pooling(config: HFConfig) -> int:
    section = config.section("1_Pooling/config.json")
    if section is None:
        return _POOLING["pooling_mode_mean_tokens"]
    chosen = [key for key, value in section.values.items() if key.startswith("pooling_mode_") and value is True]
    if len(chosen) != 1 or chosen[0] not in _POOLING:
        raise UnsupportedModelError(
            f"the pooling of {section.name} is not supported: use a model that takes the mean or the first token"
        )
    return _POOLING[chosen[0]]
