# ruff: noqa: RUF001
"""Tokens known by their text, since many files don't say what they are for.

Collected from llama.cpp, src/llama-vocab.cpp, which does the same.
"""

END_OF_TURN = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
)
END_OF_MESSAGE = "<|eom_id|>"

END_TEXTS = (
    *END_OF_TURN,
    END_OF_MESSAGE,
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<|file_sep|>",
)
"""Generation ends at these, whichever of them the file names. "</s>" is left out: in many vocabularies it is a piece of
HTML, so it counts only where it is marked as more than a normal token."""

END_IS_NOT_LAST = ({"<|return|>", "<|call|>"}, {"<|calls|>", "<|flush|>"})
"""Where a vocabulary has one of these pairs, <|end|> closes a channel or a tool call and the answer goes on."""

FILL_TEXTS = (
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
)
"""Markers of fill-in-the-middle, which some files take for text."""
