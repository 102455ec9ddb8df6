import re

import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Sequence, Split

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.text.pre_tokenizers import PRE_TOKENIZER_NAMES, pre_tokenizer


def words(name, text):
    splits = [Split(Regex(expression), "isolated") for expression in pre_tokenizer(name).expressions]
    return [word for word, _ in Sequence(splits).pre_tokenize_str(text)]


LLAMA_CPP = """
a.x-4.0 afmoe bailingmoe bailingmoe2 bloom chameleon chatglm-bpe codeshell cohere2moe command-r dbrx deepseek-coder
deepseek-llm deepseek-r1-qwen deepseek-v3 default exaone exaone-moe exaone4 f2llmv2 falcon falcon-h1 falcon3 gemma4
gigachat glm4 gpt-2 gpt-4o gpt3-finnish granite-docling granite-embed-multi-311m granite-embed-multi-97m grok-2 hunyuan
hunyuan-dense hy_v4 jais jais-2 jina-de jina-es jina-v1-en jina-v2-code jina-v2-de jina-v2-es jina-v5-nano joyai-llm
kanana2 kimi-k2 kormo laguna lfm2 llada-moe llama-bpe llama-v3 llama3 llama4 megrez mellum mellum2 midm-2.0 minerva-7b
minicpm5 minimax-m2 modern-bert mpt olmo phi-2 pixtral poro-chat qwen2 qwen35 refact roberta-bpe sarvam-moe seed-coder
smaug-bpe smollm solar-open spark2_5 stablelm2 starcoder superbpe talkie tekken tiny_aya trillion ufakzeka viking
whitespace youtu
"""


def test_every_name_of_llama_cpp_is_known():
    assert set(LLAMA_CPP.split()) <= PRE_TOKENIZER_NAMES


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZER_NAMES))
def test_splits_lose_nothing(name):
    text = "Hello WORLD's camelCase 12345678 3.14\r\n\n  x\t中文 かな 한국 กา é\u0301 🦙!?' 'll\u00a0_#if <sentinel:7>"
    assert "".join(words(name, text)) == text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gpt-2", "I'm  here 42", ["I", "'m", " ", " here", " 42"]),
        ("smollm", "a 123", ["a", " ", "1", "2", "3"]),
        ("llama-bpe", "I'LL go\n\n 12345", ["I", "'LL", " go", "\n\n", " ", "123", "45"]),
        ("qwen2", "x=12\n", ["x", "=", "1", "2", "\n"]),
        ("gpt-4o", "camelCase's HTTPServer", ["camel", "Case's", " HTTPServer"]),
        ("tekken", "camelCase 12", ["camel", "Case", " ", "1", "2"]),
        ("deepseek-coder", "ab 12\n中", ["ab", " ", "1", "2", "\n", "中"]),
        ("deepseek-v3", "1234 中文b", ["123", "4", " ", "中文", "b"]),
        ("falcon", "a.b 12345", ["a", ".", "b", " ", "123", "45"]),
        ("bloom", "Hi, you", ["Hi", ",", " you"]),
        ("afmoe", "12345678", ["12", "345", "678"]),
        ("tiny_aya", "1234567", ["1", "234", "567"]),
        ("superbpe", "1234567", ["1", "234", "567"]),
        ("kimi-k2", "中文abc 1234", ["中文", "abc", " ", "123", "4"]),
        ("gemma4", "a b\n\nc", ["a b", "\n\n", "c"]),
        ("exaone-moe", "ab cd 1", ["ab cd", " ", "1"]),
        ("whitespace", "中文, b\n 12", ["中文,", " ", "b", "\n ", "12"]),
        ("default", "a+b 12345", ["a", "+", "b", " ", "123", "45"]),
    ],
)
def test_splits_as_the_models_tokenizers_do(name, text, expected):
    assert words(name, text) == expected


def test_a_file_without_the_key_uses_the_default():
    assert pre_tokenizer("") == pre_tokenizer("default")


def test_an_unknown_name_is_an_error_that_names_it():
    with pytest.raises(UnsupportedModelError, match=re.escape("'brand-new-bpe'")):
        pre_tokenizer("brand-new-bpe")


ONE_OF_EACH = {pre_tokenizer(name).expressions: name for name in sorted(PRE_TOKENIZER_NAMES)}.values()


@pytest.mark.parametrize("name", ONE_OF_EACH)
@pytest.mark.timeout(20)
def test_long_runs_take_no_quadratic_time(name):
    for text in (" " * 50_000 + "x", "1" * 50_000, "A" * 50_000):
        assert "".join(words(name, text)) == text
