"""Turns a conversation into the prompt that a model was trained on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Template, meta
from jinja2.exceptions import TemplateError, TemplateSyntaxError

from wgpu_engine.errors import ModelFileError, RequestError
from wgpu_engine.text.builtin_templates import BUILTIN_TEMPLATES
from wgpu_engine.text.guard import Guard
from wgpu_engine.text.template_budget import start_budget
from wgpu_engine.text.template_sandbox import RefusedMessages, TemplateEnvironment, plain
from wgpu_engine.text.tokenizer import MAX_CHARACTERS
from wgpu_engine.text.vocabulary import Metadata, Vocabulary

_LONGEST_SOURCE = 1 << 18
_KEY = "tokenizer.chat_template"
_REASONING = ("reasoning_content", "thinking", "reasoning")
"""names under which clients hand back what a model thought; the first is the one that templates read"""

Message = Mapping[str, Any]


class ChatTemplate:
    """A Jinja2 chat template, rendered as transformers' `apply_chat_template` does."""

    def __init__(
        self,
        source: str,
        bos_token: str = "",
        eos_token: str = "",
        *,
        tool_source: str | None = None,
        origin: str = "file",
        guard: Guard | None = None,
    ) -> None:
        """`tool_source` is used in place of `source` where tools are given; `origin` says where the template is from:
        "file", or the name of a built-in one. `guard` keeps what is in messages from becoming control tokens.

        Raises:
            ModelFileError: the template is too long or no Jinja2.
        """
        self.source = source
        self.origin = origin
        self._guard = guard
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._environment = TemplateEnvironment()
        self._template = self._compile(source)
        self._tool_template = self._template if tool_source is None else self._compile(tool_source)

    @classmethod
    def from_metadata(cls, metadata: Metadata, vocabulary: Vocabulary) -> "ChatTemplate | None":
        """The file's own template, else the built-in one that its vocabulary or name points to, else None.

        Raises:
            ModelFileError: the file's template can't be used.
        """
        guard = Guard.of(vocabulary)
        tokens = {
            "bos_token": "" if vocabulary.bos_id is None else vocabulary.tokens[vocabulary.bos_id],
            "eos_token": "" if vocabulary.eos_id is None else vocabulary.tokens[vocabulary.eos_id],
        }
        variants = _variants(metadata)
        if variants:
            source = variants.get("default", next(iter(variants.values())))
            return cls(source, **tokens, tool_source=variants.get("tool_use"), guard=guard)
        name = str(metadata.get("general.name", "")).lower()
        for builtin in BUILTIN_TEMPLATES:
            if (
                all(marker in vocabulary.id_of for marker in builtin.markers)
                and not any(marker in vocabulary.id_of for marker in builtin.lacks)
                and all(part in name for part in builtin.named)
            ):
                return cls(builtin.source, **tokens, origin=builtin.name, guard=guard)
        return None

    @property
    def takes_tools(self) -> bool:
        """Whether the template says anything about tools."""
        if self._tool_template is not self._template:
            return True
        return "tools" in meta.find_undeclared_variables(self._environment.parse(self.source))

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt for `messages`, for `Tokenizer.encode_prompt`.

        Args:
            messages: each a mapping with `role` and `content` (text, or a list of text parts), as OpenAI's API has
                them; `tool_calls`, `reasoning_content` and the like go to the template as they are.
            tools: function definitions as OpenAI's API has them.
            add_generation_prompt: end with the header of the answer that the model is to write.
            variables: anything else that the template knows, such as `enable_thinking`.

        Raises:
            RequestError: a message is malformed (the field is named), or the template refuses or fails.
        """
        if tools and self.origin != "file":
            raise RequestError(
                f"the model's file has no chat template, and the built-in {self.origin!r} can't describe tools: "
                "leave them out, or use a file with a template"
            )
        try:
            values = plain(variables, "variables") | {
                "messages": [_checked(message, f"messages[{index}]") for index, message in enumerate(messages)],
                "tools": plain(tools, "tools") if tools else None,
                "add_generation_prompt": add_generation_prompt,
            }
            values = self._guard.all(values) if self._guard else values
        except TypeError as error:
            raise RequestError(f"{error}, but only JSON's types can go into a prompt: change it") from None
        except RecursionError:
            raise RequestError("the messages or tools are nested too deeply: flatten them") from None
        if not values["messages"]:
            raise RequestError("messages is empty: give at least one message")
        return self._rendered(self._tool_template if tools else self._template, values)

    def _compile(self, source: str) -> Template:
        if len(source) > _LONGEST_SOURCE:
            raise ModelFileError(f"the chat template is longer than {_LONGEST_SOURCE:,} characters: give a shorter one")
        try:
            return self._environment.bounded(source)
        except TemplateSyntaxError as error:
            raise ModelFileError(
                f"the chat template is wrong on line {error.lineno} ({error.message}): correct it, or give another"
            ) from error
        except (TemplateError, RecursionError, SyntaxError, ValueError, OverflowError, MemoryError) as error:
            raise ModelFileError(f"the chat template can't be compiled ({_reason(error)}): give another") from error

    def _rendered(self, template: Template, values: dict[str, Any]) -> str:
        start_budget()
        pieces: list[str] = []
        length = 0
        try:
            for piece in template.generate({"documents": None} | self._tokens | values):
                pieces.append(piece)
                length += len(piece)
                if length > MAX_CHARACTERS:
                    raise RequestError(f"the prompt is longer than {MAX_CHARACTERS:,} characters: shorten the messages")
        except RefusedMessages as error:
            raise RequestError(f"the chat template refuses these messages: {error.message}") from error
        except RequestError:
            raise
        except Exception as error:  # whatever a template can do wrong
            raise RequestError(
                f"the chat template can't render these messages ({_reason(error)}): change them, or give another "
                "template"
            ) from error
        return "".join(pieces)


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _variants(metadata: Metadata) -> dict[str, str]:
    """Templates by name; the one without a name is "default".

    GGUF keeps further ones under `tokenizer.chat_template.NAME`; a tokenizer_config.json has a list of them.
    """
    value = metadata.get(_KEY)
    variants: dict[Any, Any] = {}
    if isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value):
        variants = {entry.get("name"): entry.get("template") for entry in value}
    elif value is not None:
        variants = {"default": value}
    prefix = f"{_KEY}."
    variants |= {key.removeprefix(prefix): item for key, item in metadata.items() if key.startswith(prefix)}
    for name, source in variants.items():
        if not isinstance(name, str) or not isinstance(source, str):
            raise ModelFileError(f"{_KEY} is not text: convert or download the model again")
    return variants


def _checked(message: Message, where: str) -> dict[str, Any]:
    """A plain copy of a message: text parts joined, arguments of tool calls read, absent fields left out."""
    if not isinstance(message, Mapping):
        raise RequestError(f"{where} is not an object with role and content: correct it")
    checked = {key: value for key, value in plain(message, where).items() if value is not None}
    if not isinstance(checked.get("role"), str):
        raise RequestError(f"{where}.role is not text: give a role such as user or assistant")
    if "content" in checked:
        checked["content"] = _text(checked["content"], f"{where}.content")
    elif "tool_calls" in checked:
        checked["content"] = ""
    else:
        raise RequestError(f"{where}.content is missing: give the text of the message")
    if "tool_calls" in checked:
        checked["tool_calls"] = _tool_calls(checked["tool_calls"], f"{where}.tool_calls")
    thought = next((checked[key] for key in _REASONING if key in checked), None)
    return checked if thought is None else {"thinking": thought, **checked, "reasoning_content": thought}


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RequestError(f"{where} is neither text nor a list of text parts: correct it")
    for index, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise RequestError(f"{where}[{index}] is not a text part: this model reads text only")
    return "\n".join(part["text"] for part in content)


def _tool_calls(calls: Any, where: str) -> list[dict[str, Any]]:
    """Clients send arguments as a string of JSON, templates want the object."""
    if not isinstance(calls, list):
        raise RequestError(f"{where} is not a list: correct it")
    for index, call in enumerate(calls):
        function = call.get("function", call) if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise RequestError(f"{where}[{index}] is not a tool call with a function: correct it")
        if isinstance(function.get("arguments"), str):
            try:
                arguments = json.loads(function["arguments"])
            except (ValueError, RecursionError):
                continue  # what the model wrote needn't be JSON; then it goes back as it was
            if isinstance(arguments, dict):
                function["arguments"] = arguments
    return calls
