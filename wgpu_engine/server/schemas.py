"""What requests look like. Unknown fields are passed over, as clients of other servers send many."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, StrictInt, StrictStr, WrapValidator
from pydantic_core import PydanticCustomError, ValidationError

from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.ops.bias import MOST_BIASES
from wgpu_engine.ops.top_tokens import MOST_TOP
from wgpu_engine.server.errors import ApiError
from wgpu_engine.server.unsupported import check_unknown, refuse

_MOST_ANSWERS = 128
_MOST_TOKENS = 1 << 31
_MOST_STOPS = 64
_LONGEST_STOP = 1024
_MOST_INPUTS = 2048
_MOST_LOGPROBS = 5
"""of `/v1/completions`, as in OpenAI's API"""
_OUR_VARIABLES = ("self", "messages", "tools")
"""that a template gets from us"""


def _either(what: str) -> WrapValidator:
    """Has a union complain of the field as a whole, in place of each type that it tried."""

    def validate(value: Any, tried: Callable[[Any], Any]) -> Any:
        try:
            return tried(value)
        except ValidationError:
            raise PydanticCustomError("either", "{message}", {"message": f"Input should be {what}"}) from None

    return WrapValidator(validate)


def _free_names(variables: dict[str, Any]) -> dict[str, Any]:
    for name in _OUR_VARIABLES:
        if name in variables:
            raise PydanticCustomError("reserved", "{message}", {"message": f"{name!r} can't be set here: leave it out"})
    return variables


Id = Annotated[StrictInt, Field(ge=0, lt=1 << 32)]
Ids = list[Id]
Prompt = StrictStr | Ids
TokenKey = Annotated[str, Field(pattern=r"^[0-9]{1,10}$")]
Bias = Annotated[float, Field(ge=-100, le=100)]
StopText = Annotated[StrictStr, Field(min_length=1, max_length=_LONGEST_STOP)]
Variables = Annotated[dict[str, Any], AfterValidator(_free_names)]


def _one_by_one(given: Prompt | list[Prompt]) -> list[Prompt]:
    if isinstance(given, str):
        return [given]
    whole = [item for item in given if isinstance(item, int)]
    return [whole] if whole else [item for item in given if not isinstance(item, int)]


class StreamOptions(BaseModel):
    """What a stream carries besides text."""

    include_usage: bool | None = None


class GenerationRequest(BaseModel):
    """What both kinds of completion take: OpenAI's fields, and those that llama.cpp and vLLM add."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, allow_inf_nan=False)

    model: StrictStr | None = None
    temperature: Annotated[float | None, Field(ge=0, le=100)] = None
    top_p: Annotated[float | None, Field(ge=0, le=1)] = None
    top_k: Annotated[StrictInt | None, Field(ge=-1, le=1 << 31)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    repetition_penalty: Annotated[
        float | None, Field(ge=0.01, le=100, validation_alias=AliasChoices("repetition_penalty", "repeat_penalty"))
    ] = None
    presence_penalty: Annotated[float | None, Field(ge=-100, le=100)] = None
    frequency_penalty: Annotated[float | None, Field(ge=-100, le=100)] = None
    seed: StrictInt | None = None
    max_tokens: Annotated[StrictInt | None, Field(ge=-1, le=_MOST_TOKENS)] = None
    max_completion_tokens: Annotated[StrictInt | None, Field(ge=-1, le=_MOST_TOKENS)] = None
    """the newer name of the same, which goes first"""
    stop: Annotated[
        Annotated[StrictStr, Field(max_length=_LONGEST_STOP)]
        | Annotated[list[StopText], Field(max_length=_MOST_STOPS)]
        | None,
        _either(f"a text, or a list of up to {_MOST_STOPS} texts of 1 to {_LONGEST_STOP} characters"),
    ] = None
    ignore_eos: bool | None = None
    n: Annotated[StrictInt | None, Field(ge=1, le=_MOST_ANSWERS)] = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logit_bias: Annotated[dict[TokenKey, Bias], Field(max_length=MOST_BIASES)] | None = None
    cache_prompt: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    response_format: dict[str, Any] | None = None

    def check_supported(self) -> None:
        """Raises ApiError where the request asks for what this version can't do."""
        check_unknown(self.model_extra or {}, self.n or 1)
        if self.tools and self.tool_choice != "none":
            refuse("tools")
        if self.response_format and self.response_format.get("type") != "text":
            refuse("response_format")

    def _params(self, logprobs: int | None) -> SamplingParams:
        """How to sample, with so many of the likeliest tokens told.

        Raises:
            RequestError: a value is out of its range.
        """
        names = (
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "seed",
            "ignore_eos",
            "cache_prompt",
        )
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        # other servers write -1 for no limit, and for what is switched off
        if self.top_k == -1:
            values["top_k"] = 0
        most = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        biases = {int(token): bias for token, bias in (self.logit_bias or {}).items()}
        return SamplingParams(
            **values,
            max_tokens=None if most == -1 else most,
            stop=self.stop or (),
            logit_bias=biases,
            logprobs=logprobs,
        )


class CompletionRequest(GenerationRequest):
    """`POST /v1/completions`."""

    prompt: Annotated[Prompt | list[Prompt], _either("a text, a list of token ids, or a list of such")]
    echo: bool | None = None
    suffix: StrictStr | None = None
    logprobs: Annotated[StrictInt | None, Field(ge=0, le=_MOST_LOGPROBS)] = None

    def check_supported(self) -> None:
        super().check_supported()
        if self.suffix:
            refuse("suffix")

    def params(self) -> SamplingParams:
        """How to sample; raises RequestError where a value is out of its range."""
        return self._params(self.logprobs)

    def prompts(self) -> list[Prompt]:
        """The prompts, one by one."""
        return _one_by_one(self.prompt)


class ChatRequest(GenerationRequest):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]]
    logprobs: bool | None = None
    top_logprobs: Annotated[StrictInt | None, Field(ge=0, le=MOST_TOP)] = None
    chat_template_kwargs: Variables = Field(default_factory=dict)

    def check_supported(self) -> None:
        super().check_supported()
        if self.top_logprobs and not self.logprobs:
            message = "top_logprobs needs logprobs: set logprobs to true, or leave top_logprobs out"
            raise ApiError(400, message, param="top_logprobs")

    def params(self) -> SamplingParams:
        """How to sample; raises RequestError where a value is out of its range."""
        return self._params((self.top_logprobs or 0) if self.logprobs else None)


class EmbeddingRequest(BaseModel):
    """`POST /v1/embeddings`."""

    model: StrictStr | None = None
    input: Annotated[
        Prompt | Annotated[list[Prompt], Field(max_length=_MOST_INPUTS)],
        _either(f"a text, a list of token ids, or a list of up to {_MOST_INPUTS} such"),
    ]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[StrictInt | None, Field(ge=1)] = None

    def inputs(self) -> list[Prompt]:
        """The texts, one by one."""
        return _one_by_one(self.input)


class TokenizeRequest(BaseModel):
    """`POST /tokenize`."""

    content: StrictStr
    add_special: bool = True


class DetokenizeRequest(BaseModel):
    """`POST /detokenize`."""

    tokens: Ids


class TemplateRequest(BaseModel):
    """`POST /apply-template`."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: Variables = Field(default_factory=dict)
