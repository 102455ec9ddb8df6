"""The engine in a page, beside the same model on the desktop."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.browser.conftest import ROOT
from tests.browser.engine_scripts import RELOAD, START, ask
from wgpu_engine import LLM, errors
from wgpu_engine.files.store import Store
from wgpu_engine.text.vocabulary import BYTE_OF_LETTER


@pytest.fixture(scope="module")
def tiny(open_page: Any, site_url: str) -> Iterator[Page]:
    """A page whose engine has the model tiny-chat, in exact."""
    with open_page(site_url) as page:
        page.evaluate(START, {"precision": "exact"})
        yield page


@pytest.fixture(scope="module")
def desktop(tiny_chat: Path) -> Iterator[LLM]:
    with LLM(tiny_chat, precision="exact") as llm:
        yield llm


@pytest.mark.timeout(600)
def test_what_is_told_of_a_model(tiny: Page, desktop: LLM) -> None:
    model = tiny.evaluate("({ ...model, adapter: engine.adapter })")
    assert model["name"] == "tiny chat"
    assert model["ctx_size"] == desktop.ctx_size
    assert model["parameters"] == desktop.description.parameters
    assert model["chat"] is True and model["warnings"] == []
    assert "swiftshader" in model["adapter"]["name"] and model["adapter"]["kind"] == "cpu"
    assert "shader-f16" not in model["adapter"]["features"]


def test_progress_comes_in_stages(tiny: Page) -> None:
    progress = tiny.evaluate("progress")
    stages = list(dict.fromkeys(each["stage"] for each in progress))
    assert stages[0] == "download" and set(stages) == {"download", "weights", "kernels"}
    for stage in stages:
        done = [each["done"] for each in progress if each["stage"] == stage]
        assert done == sorted(done)
        last = [each for each in progress if each["stage"] == stage][-1]
        assert last["done"] == last["total"] > 0


def test_a_text_goes_on_as_on_the_desktop(tiny: Page, desktop: LLM) -> None:
    found = ask(tiny, "generate", "the cat sat", temperature=0, max_tokens=40, ignore_eos=True)
    wanted = desktop.generate("the cat sat", temperature=0, max_tokens=40, ignore_eos=True)
    assert found["tokens"] == wanted.tokens
    assert found["text"] == wanted.text
    assert found["finish_reason"] == "length"
    assert found["usage"]["completion_tokens"] == 40
    assert found["timings"]["predicted_per_second"] > 0


def test_a_conversation_and_its_next_turn(tiny: Page, desktop: LLM) -> None:
    messages = [{"role": "user", "content": "héllo 🦙 wörld"}]
    sampling = {"temperature": 0, "max_tokens": 12, "ignore_eos": True}
    for _ in range(2):
        found = ask(tiny, "chat", messages, **sampling)
        assert found["tokens"] == desktop.chat(messages, **sampling).tokens
        assert found["text"] == desktop.chat(messages, **sampling).text
        messages += [{"role": "assistant", "content": found["text"]}, {"role": "user", "content": "and then?"}]
    # the second turn found the first in the cache
    assert found["usage"]["cached_tokens"] > 0


def test_seeds_give_the_same_answer_again(tiny: Page, desktop: LLM) -> None:
    sampling = {"temperature": 1.0, "seed": 7, "max_tokens": 20, "ignore_eos": True}
    found = [ask(tiny, "generate", "once", **sampling)["tokens"] for _ in range(2)]
    assert found[0] == found[1] == desktop.generate("once", **sampling).tokens


def test_a_long_prompt(tiny: Page, desktop: LLM) -> None:
    text = " ".join(f"word{i % 7} and" for i in range(2000))
    ids = desktop.tokenize(text)[:2000]
    assert len(ids) == 2000
    found = ask(tiny, "generate", ids, temperature=0, max_tokens=8, ignore_eos=True)
    assert found["usage"]["prompt_tokens"] == 2000
    assert found["tokens"] == desktop.generate(ids, temperature=0, max_tokens=8, ignore_eos=True).tokens


def test_a_prompt_beyond_the_context(tiny: Page) -> None:
    error = ask(tiny, "generate", [5] * 3000)["error"]
    assert error["kind"] == "context"
    assert "3000" in error["message"] and "2048" in error["message"]


@pytest.mark.parametrize(
    ("sampling", "part"),
    [({"temperature": -1}, "temperature"), ({"tempersture": 1}, "tempersture"), ({"max_tokens": "many"}, "max_tokens")],
)
def test_a_request_that_cannot_be(tiny: Page, sampling: dict[str, Any], part: str) -> None:
    error = ask(tiny, "generate", "hello", **sampling)["error"]
    assert error["kind"] == "request" and part in error["message"]
    assert ask(tiny, "generate", "hello", max_tokens=2, ignore_eos=True)["usage"]["completion_tokens"] == 2


def test_a_stop_comes_within_steps(tiny: Page) -> None:
    found = ask(tiny, "generate", "hello", 3, temperature=0, max_tokens=1500, ignore_eos=True)
    assert found["finish_reason"] == "cancelled"
    assert len(found["tokens"]) < 40
    assert found["ended"] - found["stopped"] < 5000
    # the next answer is sound
    again = ask(tiny, "generate", "hello", temperature=0, max_tokens=5, ignore_eos=True)
    assert again["finish_reason"] == "length"
    assert again["tokens"][:3] == found["tokens"][:3]


def test_a_caller_that_leaves_stops_the_answer(tiny: Page) -> None:
    left = """async () => {
      for await (const chunk of engine.generate("hello", { max_tokens: 1500, ignore_eos: true })) break;
      const after = [];
      const asked = { max_tokens: 3, ignore_eos: true };
      for await (const { tokens } of engine.generate("hello", asked)) after.push(...tokens);
      return after.length;
    }"""
    assert tiny.evaluate(left) == 3


def test_tokens_and_cost(tiny: Page, desktop: LLM) -> None:
    assert tiny.evaluate('engine.tokenize("the cat")') == desktop.tokenize("the cat")
    cost = tiny.evaluate("engine.cost(20)")
    assert cost["dispatches"] == desktop.statistics().dispatches_per_token
    assert cost["replay_us"] > 0 and cost["python_us"] > 0


def test_what_costs_no_step_or_would_spoil_an_answer(tiny: Page, desktop: LLM) -> None:
    """Steps that are measured write into the cache."""
    refused = "(number) => engine.cost(number).then(() => null, ({ kind, message }) => `${kind}: ${message}`)"
    assert "request: there is no step" in tiny.evaluate(refused, 0)
    assert tiny.evaluate(refused, 1) is None
    sampling = {"temperature": 0, "max_tokens": 40, "ignore_eos": True}
    found = tiny.evaluate(
        """async (sampling) => {
          const refused = (promise) => promise.then(() => null, ({ kind, message }) => `${kind}: ${message}`);
          const tokens = [];
          let cost = null;
          for await (const chunk of engine.generate("hello", sampling)) {
            tokens.push(...chunk.tokens);
            cost ??= refused(engine.cost(9));
          }
          const measured = engine.cost(9);
          const answer = await refused(engine.generate("hello", sampling).next());
          return { tokens, cost: await cost, answer, dispatches: (await measured).dispatches };
        }""",
        sampling,
    )
    assert found["cost"].startswith("request: an answer is being made") and found["dispatches"] > 0
    assert found["answer"].startswith("request: the model is being measured")
    wanted = desktop.generate("hello", **sampling).tokens
    assert found["tokens"] == wanted == ask(tiny, "generate", "hello", **sampling)["tokens"]
    tiny.evaluate("engine.load(source, { ctx_size: 2, precision: 'exact' })")
    assert "request: there is no step" in tiny.evaluate(refused, 9)
    tiny.evaluate(RELOAD)


def test_answers_leave_nothing_behind(tiny: Page) -> None:
    held = "Promise.all([engine.cost(1), engine.memory()]).then(([cost, memory]) => [cost.buffers, memory.heap_bytes])"
    before = tiny.evaluate(held)
    for number in range(10):
        ask(tiny, "generate", "hello", seed=number, max_tokens=6)
    assert tiny.evaluate(held) == before


@pytest.mark.parametrize(
    ("options", "kind", "part"),
    [
        ({"ctx_size": 1 << 24}, "memory", "ctx-size"),
        ({"ctx_size": "many"}, "request", "ctx_size"),
        ({"slots": 3}, "request", "slots"),
        ({"memory_budget": 1 << 20}, "memory", "MiB"),
    ],
)
def test_options_that_cannot_be(tiny: Page, options: dict[str, Any], kind: str, part: str) -> None:
    load = """(options) => engine.load(source, options).then(() => null, ({ kind, message }) => ({ kind, message }))"""
    error = tiny.evaluate(load, options)
    assert error["kind"] == kind and part in error["message"]
    assert tiny.evaluate(RELOAD) == "tiny chat"


def test_no_model_no_answer(tiny: Page) -> None:
    tiny.evaluate("engine.unload()")
    assert ask(tiny, "generate", "hello")["error"] == {
        "kind": "request",
        "message": "no model is loaded: load one first",
    }
    assert tiny.evaluate(RELOAD) == "tiny chat"


def test_a_damaged_file_is_refused_by_its_sentence(tiny: Page, tiny_chat: Path) -> None:
    """And the model that was there before has to be loaded again."""
    refused = """async ([bytes, name]) => {
      const file = new File([new Uint8Array(bytes)], name);
      return engine.load({ kind: "file", files: [file] }).then(() => null, ({ kind, message }) => ({ kind, message }));
    }"""
    whole = list(tiny_chat.read_bytes())
    for data in (whole[: len(whole) // 2], whole[:100], list(b"GGUF") + [255] * 100, []):
        error = tiny.evaluate(refused, [data, "some.gguf"])
        assert error["kind"] == "file", error
        assert "some.gguf" in error["message"] and "\n" not in error["message"]
    assert tiny.evaluate(RELOAD) == "tiny chat"
    assert len(ask(tiny, "generate", "hello", max_tokens=2, ignore_eos=True)["tokens"]) == 2


def test_a_model_that_cannot_write_says_so(tiny: Page, tiny_llama: Any) -> None:
    encoder = tiny_llama(architecture="bert", vocabulary="gpt2")
    load = """([bytes, name]) => {
      const file = new File([new Uint8Array(bytes)], name);
      return engine.load({ kind: "file", files: [file] }).then(() => null, ({ kind }) => kind);
    }"""
    assert tiny.evaluate(load, [list(encoder.read_bytes()), "encoder.gguf"]) == "embeddings"
    assert tiny.evaluate(RELOAD) == "tiny chat"


def test_letters_of_several_tokens_come_whole(tiny: Page, tiny_llama: Any) -> None:
    """A model whose layers do nothing, so that each token decides on the next: the bytes of an emoji, one by one."""
    chain = [list(BYTE_OF_LETTER.values()).index(byte) for byte in "a🦙é".encode()]
    embedding = np.zeros((len(BYTE_OF_LETTER) + 10, 64), np.float32)
    embedding[chain, range(len(chain))] = 1
    output = np.zeros_like(embedding)
    output[chain[1:] + chain[:1], range(len(chain))] = 1
    nothing = {"attn_output": np.zeros((64, 64), np.float32), "ffn_down": np.zeros((64, 96), np.float32)}
    tensors = {f"blk.{layer}.{name}.weight": zeros for layer in range(2) for name, zeros in nothing.items()}
    tensors |= {"token_embd.weight": embedding, "output.weight": output}
    path = tiny_llama(vocabulary="gpt2", tensors=tensors)
    found = tiny.evaluate(
        """async (bytes) => {
          await engine.load({ kind: "file", files: [new File([new Uint8Array(bytes)], "chain.gguf")] });
          const texts = [];
          const sampling = { temperature: 0, max_tokens: 16, ignore_eos: true };
          for await (const { text } of engine.generate("a", sampling)) texts.push(text);
          return texts;
        }""",
        list(path.read_bytes()),
    )
    with LLM(path) as llm:
        assert "".join(found) == llm.generate("a", temperature=0, max_tokens=16, ignore_eos=True).text
    assert "".join(found).startswith("🦙éa🦙éa")
    assert not any("\ufffd" in text for text in found[:-1])
    assert tiny.evaluate(RELOAD) == "tiny chat"


def test_every_error_of_python_has_a_kind() -> None:
    """Whatever loading or answering may raise; the others belong to commands."""
    kinds = (ROOT / "web" / "engine" / "worker.js").read_text()
    for error in (
        errors.ModelFileError,
        errors.UnsupportedModelError,
        errors.ModelNotFoundError,
        *(errors.DownloadError, *errors.DownloadError.__subclasses__()),
        *(errors.DeviceError, *errors.DeviceError.__subclasses__()),
        errors.NoAdapterError,
        *(errors.RequestError, *errors.RequestError.__subclasses__()),
    ):
        assert f'  {error.__name__}: "' in kinds


def test_a_lost_device_and_the_next_load(open_page: Any, launch: Any, site_url: str, kill_gpu: Any) -> None:
    """The browser's GPU process ends in mid-answer."""
    lose = """async () => {
      const chunks = [];
      try {
        for await (const chunk of engine.generate("hello", { max_tokens: 1900, ignore_eos: true })) {
          chunks.push(chunk.text);
          if (chunks.length === 2) window.answering = true;
        }
        return "no error";
      } catch (error) {
        return { kind: error.kind, message: error.message, chunks: chunks.length };
      }
    }"""
    browser = launch()
    with open_page(site_url, browser) as page:
        page.evaluate(START, {"precision": "exact"})
        page.evaluate(f"window.answering = false; window.losing = ({lose})(); null")
        page.wait_for_function("answering")
        kill_gpu(browser)
        found = page.evaluate("losing")
        assert found["kind"] == "lost" and found["chunks"] >= 2
        assert "load the model again" in found["message"]
        assert len(page.evaluate("lost")) == 1
        assert page.evaluate(RELOAD) == "tiny chat"
        assert len(ask(page, "generate", "hello", max_tokens=2, ignore_eos=True)["tokens"]) == 2


@pytest.mark.conformance
def test_a_story_as_llama_cpp_tells_it(conformance: Path, make_bundle: Any, static_server: Any, open_page: Any) -> None:
    folder = conformance / "logits"
    wanted = json.loads((folder / "stories260K.llamacpp.json").read_text(encoding="utf-8"))["ids"]
    url = static_server(make_bundle(folder / "stories260K.gguf")).url
    with open_page(url) as page:
        page.evaluate(START, {"precision": "exact"})
        found = ask(page, "generate", wanted[:1], temperature=0, max_tokens=len(wanted) - 1)
    assert found["tokens"] == wanted[1:]


@pytest.mark.model
@pytest.mark.conformance
@pytest.mark.timeout(900)
def test_a_real_model(conformance: Path, make_bundle: Any, static_server: Any, open_page: Any) -> None:
    """SmolLM2's 24 tokens. Weights don't pass through Python's memory, and a step costs the page's thread little."""
    wanted = json.loads((conformance / "logits" / "smollm2-q4_1.hf.json").read_text(encoding="utf-8"))
    url = static_server(make_bundle(Store().find("smollm2"))).url
    with open_page(url) as page:
        empty = page.evaluate("""async () => {
          const { Engine } = await import("/engine/engine.js");
          const engine = await Engine.start();
          const { heap_bytes } = await engine.memory();
          engine.close();
          return heap_bytes;
        }""")
        page.evaluate(START, {"precision": "exact", "ctx_size": 512})
        assert page.evaluate("engine.memory()")["heap_bytes"] - empty < 40e6
        assert page.evaluate("engine.cost(20)")["replay_us"] <= 1000
        found = ask(page, "generate", wanted["ids"], temperature=0, max_tokens=24)
    assert wanted["ids"] + found["tokens"] == wanted["greedy24"]
