"""BERT as an encoder: attention in both directions, layer norms behind each sum (modeling_bert.py)."""

from collections.abc import Sequence

import numpy as np

from .activations import ACTIVATIONS
from .attention import attend, split
from .checkpoint import Checkpoint, Doubles


def hidden(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    """The last hidden states [tokens, width]; all tokens are of the first segment."""
    config, eps = model.config, model.config["layer_norm_eps"]
    act = ACTIVATIONS[config["hidden_act"]]
    x = sum(
        model.embed(rows, f"embeddings.{name}_embeddings")
        for name, rows in (("word", ids), ("position", range(len(ids))), ("token_type", [0] * len(ids)))
    )
    x = model.layer_norm("embeddings.LayerNorm", np.asarray(x), eps)
    for i in range(model.layers):
        layer = f"encoder.layer.{i}"
        q, k, v = (
            split(model.linear(f"{layer}.attention.self.{name}", x), model.head_dim)
            for name in ("query", "key", "value")
        )
        mixed = model.linear(f"{layer}.attention.output.dense", attend(q, k, v, causal=False))
        x = model.layer_norm(f"{layer}.attention.output.LayerNorm", x + mixed, eps)
        h = model.linear(f"{layer}.output.dense", act(model.linear(f"{layer}.intermediate.dense", x)))
        x = model.layer_norm(f"{layer}.output.LayerNorm", x + h, eps)
    return x


def embedding(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    """[width]: the mean over all tokens, of length 1, as sentence-transformers has it for MiniLM."""
    mean = hidden(model, ids).mean(axis=0)
    return mean / np.linalg.norm(mean)
