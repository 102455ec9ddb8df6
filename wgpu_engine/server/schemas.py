"""What requests look like. Unknown fields are passed over, as clients of other servers send many."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StrictInt, StrictStr

from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.server.errors import ApiError

_MOST_ANSWERS = 128

Ids = list[StrictInt]
Prompt = StrictStr | Ids
_Fields = TypeVar("_Fields", bound="GenerationRequest")


class StreamOptions(BaseModel):
    """What a stream carries besides text."""

    include_usage: bool = False


class GenerationRequest(BaseModel):
    """What both kinds of completion take: OpenAI's fields, and those that llama.cpp and vLLM add."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    model: StrictStr | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: StrictInt | None = None
    min_p: float | None = None
    repetition_penalty: Annotated[
        float | None, Field(validation_alias=AliasChoices("repetition_penalty", "repeat_penalty"))
    ] = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: StrictInt | None = None
    max_tokens: Annotated[StrictInt | None, Field(ge=0)] = None
    stop: StrictStr | list[StrictStr] | None = None
    ignore_eos: bool | None = None
    n: Annotated[StrictInt, Field(ge=1, le=_MOST_ANSWERS)] = 1
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logit_bias: dict[str, float] | None = None

    def unsupported(self) -> list[str]:
        """Fields that ask for what this version can't do."""
        return ["logit_bias"] if self.logit_bias else []

    def params(self) -> SamplingParams:
        """How to sample.

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
            "max_tokens",
            "ignore_eos",
        )
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        return SamplingParams(**values, stop=self.stop or ())


class CompletionRequest(GenerationRequest):
    """`POST /v1/completions`."""

    prompt: Prompt | list[Prompt]
    echo: bool | None = None
    suffix: StrictStr | None = None
    logprobs: Any = None

    def unsupported(self) -> list[str]:
        return super().unsupported() + [name for name in ("suffix", "logprobs") if getattr(self, name)]

    def prompts(self) -> list[Prompt]:
        """The prompts, one by one."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        whole = [item for item in self.prompt if isinstance(item, int)]
        return [whole] if whole else [item for item in self.prompt if not isinstance(item, int)]


class ChatRequest(GenerationRequest):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]]
    max_completion_tokens: Annotated[StrictInt | None, Field(ge=0)] = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: StrictInt | None = None
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)

    def unsupported(self) -> list[str]:
        found = super().unsupported() + [name for name in ("logprobs", "top_logprobs") if getattr(self, name)]
        if self.tools and self.tool_choice != "none":
            found.append("tools")
        if self.response_format and self.response_format.get("type") != "text":
            found.append("response_format")
        return found

    def params(self) -> SamplingParams:
        if self.max_completion_tokens is not None:
            self.max_tokens = self.max_completion_tokens
        return super().params()


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
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)


def check_supported(request: GenerationRequest) -> None:
    """Raises ApiError where a request asks for what this version can't do."""
    names = request.unsupported()
    if names:
        raise ApiError(400, f"{names[0]} is not supported yet: leave it out", param=names[0], code="unsupported")


Finish = Literal["stop", "length"]
