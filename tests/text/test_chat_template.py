"""Chat templates: prompts as transformers renders them, refusals, bounds, and the built-in ones.

`data/chat_renders.json` holds conversations and what transformers 5.24's `apply_chat_template(tokenize=False)` makes of
them with each template, its clock stopped at `date`. `data/templates/` has templates of our own; the others are models'
own and are read from the conformance data.
"""

import json
from datetime import datetime
from pathlib import Path

import pytest

from wgpu_engine.errors import ModelFileError, RequestError
from wgpu_engine.text import template_sandbox
from wgpu_engine.text.chat_template import ChatTemplate
from wgpu_engine.text.vocabulary import Vocabulary

DATA = Path(__file__).parent / "data"
EXPECTED = json.loads((DATA / "chat_renders.json").read_text(encoding="utf-8"))
USER = {"role": "user", "content": "Hello"}


def render(source, messages=(USER,), **options):
    return ChatTemplate(source, "<s>", "</s>").render(list(messages), **options)


@pytest.mark.parametrize("conversation", EXPECTED["conversations"])
@pytest.mark.parametrize("name", EXPECTED["templates"])
def test_renders_as_transformers_does(request, monkeypatch, name, conversation):
    path = DATA / "templates" / f"{name}.jinja"
    if not path.exists():
        path = request.getfixturevalue("conformance") / "chat-templates" / f"{name}.jinja"
    monkeypatch.setattr(template_sandbox, "now", lambda: datetime.fromisoformat(EXPECTED["date"]))
    expected, chat = EXPECTED["templates"][name], EXPECTED["conversations"][conversation]
    template = ChatTemplate(path.read_text(encoding="utf-8"), expected["bos_token"], expected["eos_token"])
    renders = expected["renders"][conversation]
    for key, add_generation_prompt in (("prompt", True), ("closed", False)):
        outcome = renders.get(key, renders["prompt"])
        arguments = (chat["messages"], chat.get("tools"), add_generation_prompt)
        if "text" in outcome:
            assert template.render(*arguments, **chat.get("variables", {})) == outcome["text"]
        else:
            with pytest.raises(RequestError) as refused:
                template.render(*arguments, **chat.get("variables", {}))
            assert (outcome["error"] or "can't render") in str(refused.value)


def test_every_model_template_is_covered(conformance):
    assert {path.stem for path in (conformance / "chat-templates").glob("*.jinja")} <= set(EXPECTED["templates"])


def test_the_caller_keeps_its_messages():
    call = {"function": {"name": "f", "arguments": '{"a": 1}'}}
    message = {"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": [call]}
    source = "{% for m in messages %}{{ m.content }}{{ m.tool_calls[0].function.arguments.a }}{% endfor %}"
    assert render(source, [message]) == "x1"
    assert message["content"] == [{"type": "text", "text": "x"}]
    assert call["function"]["arguments"] == '{"a": 1}'


def test_parts_are_joined_and_absent_content_is_empty():
    source = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    call = {"type": "function", "function": {"name": "f", "arguments": "not JSON"}}
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    assert render(source, messages) == "[one\ntwo][]"


def test_ordinary_formatting_passes_the_bounds():
    source = "{{ '**%s** 1234567 %-9s|' % ('a', 'b') }}{{ '{:>8}'.format(5) }}{{ 'x'.center(9) | replace('x', 'yy') }}"
    assert render(source) == "**a** 1234567 b        |       5    yy    "


def test_reasoning_goes_by_the_name_that_templates_read():
    source = "{{ messages[0].reasoning_content }}/{{ messages[0].thinking }}"
    assert render(source, [USER | {"reasoning": "Hm."}]) == "Hm./Hm."


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        ([], "messages is empty"),
        (["hi"], r"messages\[0\] is not an object"),
        ([USER, {"content": "x"}], r"messages\[1\]\.role"),
        ([{"role": 3, "content": "x"}], r"messages\[0\]\.role"),
        ([{"role": "user"}], r"messages\[0\]\.content is missing"),
        ([{"role": "user", "content": 5}], r"messages\[0\]\.content is neither"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], r"messages\[0\]\.content\[0\] is not a text part"),
        ([USER | {"tool_calls": "x"}], r"messages\[0\]\.tool_calls is not a list"),
        ([USER | {"tool_calls": ["x"]}], r"messages\[0\]\.tool_calls\[0\]"),
        ([USER | {"extra": {"deep": [object()]}}], r"messages\[0\]\.extra\.deep\[0\] is a object"),
    ],
)
def test_names_the_field_that_is_wrong(messages, named):
    with pytest.raises(RequestError, match=named):
        render("{{ messages[0].content }}", messages)


def test_nesting_too_deep_is_refused():
    nest = []
    for _ in range(100_000):
        nest = [nest]
    with pytest.raises(RequestError, match="nested too deeply"):
        render("", [USER | {"extra": nest}])
    while nest:  # taken apart by hand, since freeing it recurses too
        nest = nest[0]


def test_a_refusal_carries_the_templates_words():
    with pytest.raises(RequestError, match="refuses these messages: only the system may speak"):
        render("{{ raise_exception('only the system may speak') }}")


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ 'open", "{% for x in y %}", "{% nonsense %}", "{{ x | no_filter }}"]
)
def test_a_template_that_is_none_is_a_sentence_with_its_line(source):
    with pytest.raises(ModelFileError, match="wrong on line 2"):
        ChatTemplate("\n" + source)


@pytest.mark.parametrize("source", ["x" * (1 << 18) + "x", "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}"])
def test_monstrous_templates_are_refused(source):
    with pytest.raises(ModelFileError, match="chat template"):
        ChatTemplate(source)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("source", json.loads((DATA / "bad_templates.json").read_text(encoding="utf-8")))
def test_bad_templates_neither_hang_nor_escape(source):
    render("")  # leaves a budget behind, of which compiling must make no use
    with pytest.raises(RequestError) as refused:
        render(source)
    assert "\n" not in str(refused.value)


def metadata_with(base, *tokens, **keys):
    """`base` with further control tokens."""
    return base | {
        "tokenizer.ggml.tokens": [*base["tokenizer.ggml.tokens"], *tokens],
        "tokenizer.ggml.token_type": [*base["tokenizer.ggml.token_type"], *[3] * len(tokens)],
        "tokenizer.ggml.scores": [0.0] * (len(base["tokenizer.ggml.tokens"]) + len(tokens)),
        **keys,
    }


def template_of(metadata):
    return ChatTemplate.from_metadata(metadata, Vocabulary.from_metadata(metadata))


def test_the_files_own_template_is_used(bpe):
    source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    template = template_of(bpe | {"tokenizer.chat_template": source})
    assert template.origin == "file"
    assert template.render([USER]) == "<|im_start|>Hello<|im_end|>"


def test_tools_have_a_template_of_their_own_where_the_file_has_one(bpe):
    tools = [{"type": "function", "function": {"name": "f"}}]
    named = {"tokenizer.chat_template": "plain", "tokenizer.chat_template.tool_use": "tools"}
    listed = {
        "tokenizer.chat_template": [
            {"name": "tool_use", "template": "tools"},
            {"name": "default", "template": "plain"},
        ]
    }
    for keys in (named, listed):
        template = template_of(bpe | keys)
        assert template.render([USER]) == "plain"
        assert template.render([USER], tools=[]) == "plain"
        assert template.render([USER], tools=tools) == "tools"


def test_a_template_that_is_not_text_is_refused(bpe):
    with pytest.raises(ModelFileError, match="chat_template"):
        template_of(bpe | {"tokenizer.chat_template": 5})


SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "Hi."}
LLAMA3 = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")


@pytest.mark.parametrize(
    ("tokens", "name", "origin", "prompt"),
    [
        (
            ("<|im_start|>", "<|im_end|>"),
            "",
            "chatml",
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
            "<|im_start|>assistant\nHi.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            ("<|im_start|>", "<|im_sep|>", "<|im_end|>"),
            "",
            "phi4",
            "<|im_start|>system<|im_sep|>Be brief.<|im_end|><|im_start|>user<|im_sep|>Hello<|im_end|>"
            "<|im_start|>assistant<|im_sep|>Hi.<|im_end|><|im_start|>user<|im_sep|>Hello<|im_end|>"
            "<|im_start|>assistant<|im_sep|>",
        ),
        (
            LLAMA3,
            "",
            "llama3",
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHi.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            ("<start_of_turn>", "<end_of_turn>"),
            "",
            "gemma",
            "<s><start_of_turn>user\nBe brief.\n\nHello<end_of_turn>\n<start_of_turn>model\nHi.<end_of_turn>\n"
            "<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n",
        ),
        (
            ("<|user|>", "<|assistant|>", "<|end|>"),
            "",
            "phi3",
            "<|system|>\nBe brief.<|end|>\n<|user|>\nHello<|end|>\n<|assistant|>\nHi.<|end|>\n<|user|>\nHello<|end|>\n"
            "<|assistant|>\n",
        ),
        (
            ("<|user|>", "<|assistant|>"),
            "",
            "zephyr",
            "<|system|>\nBe brief.</s>\n<|user|>\nHello</s>\n<|assistant|>\nHi.</s>\n<|user|>\nHello</s>\n"
            "<|assistant|>\n",
        ),
        (("[INST]", "[/INST]"), "", "mistral", "<s>[INST]Be brief.\n\nHello[/INST]Hi.</s>[INST]Hello[/INST]"),
        (
            (),
            "Llama-2 7B Chat",
            "llama2",
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHello [/INST] Hi. </s><s>[INST] Hello [/INST]",
        ),
    ],
)
def test_a_file_without_a_template_uses_the_one_that_its_vocabulary_shows(spm, tokens, name, origin, prompt):
    template = template_of(metadata_with(spm, *tokens, **{"general.name": name}))
    assert template.origin == origin
    assert template.render([SYSTEM, USER, ANSWER, USER]) == prompt
    assert "Be brief." not in template.render([USER])


def test_a_built_in_template_refuses_tools(spm):
    template = template_of(metadata_with(spm, *LLAMA3))
    with pytest.raises(RequestError, match="'llama3' can't describe tools"):
        template.render([USER], tools=[{"type": "function", "function": {"name": "f"}}])


def test_nothing_fits_a_base_model(spm):
    assert template_of(spm) is None
