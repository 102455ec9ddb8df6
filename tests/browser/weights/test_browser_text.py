"""Text in the browser: the desktop's ids and prompts, by the JavaScript tokenizer and Jinja2 in Pyodide."""

import json
import random
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, Unigram, WordPiece

from tests.text.hf_tokenizers import KINDS, byte_level, word_piece
from wgpu_engine.errors import EngineError
from wgpu_engine.files.gguf import read_gguf
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text import template_sandbox
from wgpu_engine.text.chat_template import ChatTemplate
from wgpu_engine.text.guard import GUARD
from wgpu_engine.text.opening import open_tokenizer
from wgpu_engine.text.tokenizer import Tokenizer
from wgpu_engine.text.tokenizer_json import tokenizer_json
from wgpu_engine.text.vocabulary import Vocabulary

DATA = Path(__file__).parents[2] / "text" / "data"
NAMES = ("bert-bge", "deepseek-coder", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "starcoder")
RENDERS = json.loads((DATA / "chat_renders.json").read_text(encoding="utf-8"))

HARD = "aA1 \t\n\r'.,<>|é中한กЖİ𠀀🙂\u200d\ufe0f\u0301\u00a0\ufeff\u0085\0▁"
"""characters that libraries treat differently"""

BOOT = """async () => {
  const { loadPyodide } = await import("/pyodide/pyodide.mjs");
  const { makeEncoder } = await import("/engine/tokenizer.js");
  const { openSource } = await import("/engine/source.js");
  const pyodide = await loadPyodide({ indexURL: "/pyodide/", packages: ["wgpu_engine"] });
  pyodide.registerJsModule("wgpu_engine_host", { makeEncoder });
  document.body.innerHTML = "<input type=file>";
  window.encode = (document, texts) => {
    try {
      const encoder = makeEncoder(document);
      return texts.map((text) => [...encoder.encode(text)]);
    } catch (error) {
      return [error.kind, error.message];
    }
  };
  window.run = async (program, given) => {
    const [file] = document.querySelector("input").files;
    const [source] = file ? await openSource({ kind: "file", files: [file] }) : [null];
    pyodide.globals.set("js_source", source);
    pyodide.globals.set("given", JSON.stringify(given));
    return JSON.parse(await pyodide.runPythonAsync(program));
  };
}"""

OPEN = """
import json
from wgpu_engine.files.model_file import open_sources
from wgpu_engine.platform.browser_encoder import BrowserEncoder
from wgpu_engine.platform.browser_source import BrowserSource
from wgpu_engine.text.tokenizer import Tokenizer
from wgpu_engine.text.tokenizer_json import tokenizer_json
from wgpu_engine.text.vocabulary import Vocabulary

file = await open_sources([BrowserSource(js_source)])
vocabulary = Vocabulary.from_metadata(file.metadata)
tokenizer = Tokenizer(vocabulary, BrowserEncoder(tokenizer_json(vocabulary)))
file.close()
"""

ENCODE = (
    OPEN
    + """
json.dumps([
    [tokenizer.encode(text, special, markers) for special, markers in ((False, False), (True, True))]
    for text in json.loads(given)
])
"""
)

RENDER = """
import json
from datetime import datetime
from wgpu_engine.errors import EngineError
from wgpu_engine.text import template_sandbox
from wgpu_engine.text.chat_template import ChatTemplate

found = []
asked = json.loads(given)
template_sandbox.now = lambda: datetime.fromisoformat(asked["date"])
for source, bos, eos, calls in asked["templates"]:
    try:
        template = ChatTemplate(source, bos, eos)
    except EngineError as error:
        found.append(f"{type(error).__name__}: {error}")
        continue
    for messages, tools, more, variables in calls:
        try:
            found.append(template.render(messages, tools, more, **variables))
        except EngineError as error:
            found.append(f"{type(error).__name__}: {error}")
json.dumps(found)
"""

Run = Callable[..., Any]
Encode = Callable[[str, list[str]], Any]

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def steps(*pre: Any, normalizer: Any = None, **added: Any) -> Callable[[], Library]:
    """Makes a byte-level tokenizer of other steps, or with an added token of its own."""

    def make() -> Library:
        library = byte_level()
        if pre:
            library.pre_tokenizer = pre_tokenizers.Sequence([*pre])
        if normalizer:
            library.normalizer = normalizer
        if added:
            library.add_tokens([AddedToken("<|odd|>", **added)])
        return library

    return make


LETTERS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
SPLIT = pre_tokenizers.Split(Regex(WORDS), "isolated")
SOUND: dict[str, Callable[[], Library]] = {
    **KINDS,
    "WordPiece": word_piece,
    "digits by themselves": steps(
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    ),
    "digits in runs": steps(pre_tokenizers.Digits(), LETTERS),
    "an expression": steps(SPLIT, LETTERS),
    "NFC": steps(SPLIT, LETTERS, normalizer=normalizers.NFC()),
    "a space before the text": steps(pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)),
    "space before added tokens": steps(lstrip=True, normalized=False),
    "space behind added tokens": steps(rstrip=True, normalized=False),
    "normalized tokens that nothing normalizes": steps(normalized=True),
}
REFUSED = {
    "the normalizer Lowercase": steps(normalizer=normalizers.Lowercase()),
    "the normalizer Strip": steps(normalizer=normalizers.Strip()),
    "the normalizer NFKC": steps(normalizer=normalizers.NFKC()),
    "the normalizer Replace": steps(normalizer=normalizers.Replace(Regex("a+"), "a")),
    "the pre-tokenizer Punctuation": steps(pre_tokenizers.Punctuation(), LETTERS),
    "the pre-tokenizer Whitespace": steps(pre_tokenizers.Whitespace(), LETTERS),
    "the pre-tokenizer Metaspace": steps(pre_tokenizers.Metaspace(split=True)),
    "the pre-tokenizer Split": steps(pre_tokenizers.Split(" ", "merged_with_previous"), LETTERS),
    "puts a space before each text": steps(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "added tokens that are whole words": steps(single_word=True),
    "added tokens that are normalized": steps(normalized=True, normalizer=normalizers.NFC()),
}


@pytest.fixture(scope="module")
def python_page(open_page: Any, site_url: str) -> Iterator[Page]:
    with open_page(site_url) as opened:
        opened.evaluate(BOOT)
        yield opened


@pytest.fixture(scope="module")
def run_python(python_page: Page) -> Run:
    """Runs Python in a page: `run_python(program, given, file)`; what `json.loads(given)` is there, and a file."""

    def run(program: str, given: Any = None, file: Path | None = None) -> Any:
        python_page.set_input_files("input", [file] if file else [])
        return python_page.evaluate("([program, given]) => run(program, given)", [program, given])

    return run


@pytest.fixture(scope="module")
def encode(python_page: Page) -> Encode:
    """Ids of texts by the text of a `tokenizer.json`, or the kind of an error and its sentence."""
    return lambda document, texts: python_page.evaluate("([one, other]) => encode(one, other)", [document, texts])


def fuzzed(words: list[str], count: int, chance: random.Random) -> list[str]:
    """Texts of a vocabulary's own words, of what is hard, and of any characters."""
    hard = [
        *"aA1 \t\n\r'.,<>|é中한กЖ🙂\u200d\ufe0f\u0301\u00a0\ufeff\u0085\0▁",
        "'LL",
        "  ",
        "123456",
        "ΟΔΟΣ",
        "𠀀",
        "İ",
    ]
    assigned = [*range(0x20, 0x500), *range(0x600, 0x700), *range(0x3040, 0xA000), *range(0x1F300, 0x1F5FF)]
    makers = (
        lambda: chance.choice(words),
        lambda: chance.choice(hard),
        lambda: chr(chance.choice(assigned)),
    )
    return ["".join(chance.choice(makers)() for _ in range(chance.randrange(1, 25))) for _ in range(count)]


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_of_the_desktop(conformance: Path, run_python: Run, name: str) -> None:
    path = conformance / "vocabularies" / f"ggml-vocab-{name}.gguf"
    texts = path.with_name(f"{path.name}.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    lines = path.with_name(f"{path.name}.out").read_text(encoding="utf-8").split("\n")
    wanted = [[int(number) for number in line.split()] for line in lines]
    vocabulary = Vocabulary.from_metadata(drive(read_gguf(FileSource(path))).metadata)
    tokenizer = Tokenizer(vocabulary, TokenizersEncoder(tokenizer_json(vocabulary)))
    words = [vocabulary.token_bytes(index).decode(errors="ignore") for index in range(0, len(vocabulary), 11)]
    more = fuzzed([word for word in words if word], 150, random.Random(name))
    found = run_python(ENCODE, [*texts, *more], path)
    assert [plain for plain, _ in found[: len(texts)]] == wanted, "llama.cpp's"
    for text, (plain, whole) in zip([*texts, *more], found, strict=True):
        assert plain == tokenizer.encode(text, False, False), ascii(text)
        assert whole == tokenizer.encode(text), ascii(text)


def documents(library: Library) -> list[str]:
    """What the engine makes encoders of: the file itself, without its special tokens, and with fenced ones."""
    made: list[str] = []

    def encoder(document: str) -> TokenizersEncoder:
        made.append(document)
        return TokenizersEncoder(document)

    metadata = {"tokenizer.huggingface.json": library.to_str()}
    tokenizer = open_tokenizer(metadata, library.get_vocab_size(), encoder)
    tokenizer.encode("x", parse_special=False)
    tokenizer.encode_prompt(f"{GUARD}x")
    return made


@pytest.mark.parametrize("kind", SOUND)
def test_a_models_own_tokenizer_json(encode: Encode, kind: str) -> None:
    words = [
        "<s>",
        "</s>",
        "<unk>",
        "<|tool|>",
        "<|odd|>",
        " <|odd|>\u0085",
        "the",
        " then",
        "[SEP]",
        f"{GUARD}<s>{GUARD}",
    ]
    texts = ["", *fuzzed(words, 400, random.Random(kind))]
    made = documents(SOUND[kind]())
    assert len(made) == 3
    for document in made:
        desktop = TokenizersEncoder(document)
        assert encode(document, texts) == [desktop.encode(text) for text in texts]


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_be_encoded_otherwise_is_refused_by_name(encode: Encode, what: str) -> None:
    kind, message = encode(REFUSED[what]().to_str(), ["x"])
    assert kind == "unsupported"
    assert what in message and message.endswith("encode wrongly: use another model or the desktop's engine")


def test_other_models_are_refused_by_name(encode: Encode) -> None:
    for library, what in (
        (Library(Unigram([("<unk>", 0.0), ("a", -1.0)], 0, byte_fallback=True)), "of kind Unigram"),
        (Library(WordPiece({"[UNK]": 0}, unk_token="[UNK]")), "a WordPiece tokenizer that isn't BERT's"),
        (Library(BPE({"a": 0}, [], dropout=0.1)), "a BPE tokenizer with dropout"),
        (Library(BPE({"a": 0, "##a": 1}, [], continuing_subword_prefix="##")), "affixes of words"),
    ):
        kind, message = encode(library.to_str(), ["x"])
        assert kind == "unsupported" and what in message


def test_letters_that_a_vocabulary_lacks(encode: Encode) -> None:
    """What is beside them merges; with an unknown token it stands in their place."""
    vocab = {"a": 0, "b": 1, "ab": 2, "<unk>": 3, "aa": 4}
    for unknown in (None, "<unk>"):
        for fallback in (False, True):
            library = Library(BPE(vocab, [("a", "b"), ("a", "a")], unk_token=unknown, byte_fallback=fallback))
            texts = ["axb", "aab", "xaxax", "ab🦙ab", "x"]
            wanted = [library.encode(text, add_special_tokens=False).ids for text in texts]
            assert encode(library.to_str(), texts) == wanted


@pytest.mark.conformance
def test_prompts_are_those_of_the_desktop(conformance: Path, run_python: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every conversation in every template: those of real models, and one that has every feature."""
    monkeypatch.setattr(template_sandbox, "now", lambda: datetime.fromisoformat(RENDERS["date"]))
    templates, wanted = [], []
    for name, expected in RENDERS["templates"].items():
        path = DATA / "templates" / f"{name}.jinja"
        path = path if path.exists() else conformance / "chat-templates" / f"{name}.jinja"
        source = path.read_text(encoding="utf-8")
        calls = [
            [chat["messages"], chat.get("tools"), more, chat.get("variables", {})]
            for chat in RENDERS["conversations"].values()
            for more in (True, False)
        ]
        templates.append([source, expected["bos_token"], expected["eos_token"], calls])
        template = ChatTemplate(source, expected["bos_token"], expected["eos_token"])
        for messages, tools, more, variables in calls:
            try:
                wanted.append(template.render(messages, tools, more, **variables))
            except EngineError as error:
                wanted.append(f"{type(error).__name__}: {error}")
    assert len(wanted) > 200
    assert run_python(RENDER, {"date": RENDERS["date"], "templates": templates}) == wanted


def test_bad_templates_neither_hang_nor_end_python(run_python: Run) -> None:
    bad = json.loads((DATA / "bad_templates.json").read_text(encoding="utf-8"))
    call = [[{"role": "user", "content": "Hello"}], None, True, {}]
    deep = ["{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}", "{{ " + "-" * 100_000 + "1 }}", "{% if 1 %}" * 9_000]
    for source in [*bad, *deep]:
        found = run_python(RENDER, {"date": RENDERS["date"], "templates": [[source, "", "", [call]]]})
        assert found[0].startswith(("RequestError: the ", "ModelFileError: the ")) and "\n" not in found[0]
    assert run_python(RENDER, {"date": RENDERS["date"], "templates": [["{{ 1 }}", "", "", [call]]]}) == ["1"]
