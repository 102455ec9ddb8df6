# Each target sets up what it needs first. PYTHON=/path/to/python3 chooses the interpreter for .venv.

VENV := .venv
BIN := $(VENV)/bin
MODEL := smollm2
ENCODER := minilm
# what pytest gets beside, such as tests/engine or --durations=9
TESTS :=
PROMPT := Give me three tips for staying healthy.
SWIFTSHADER := /usr/lib/chromium/vk_swiftshader_icd.json
ON_DAWN := env WGPU_ENGINE_BACKEND=dawn VK_ICD_FILENAMES=$(SWIFTSHADER) VK_DRIVER_FILES=$(SWIFTSHADER)
SETUP := tools/setup.sh

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-dawn test-dawn-models test-wheel web bundle screenshots lint format bench bench-compare bench-types bench-serving bench-browser setup clean

help: ## show this
	@echo "make TARGET, where TARGET is:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(VENV)/.ready-dev ## set up .venv for working on the project

$(VENV)/.ready: pyproject.toml $(SETUP)
	@$(SETUP) run
	@touch $@

$(VENV)/.ready-dev: pyproject.toml $(SETUP)
	@$(SETUP) dev
	@touch $@ $(VENV)/.ready

web: $(VENV)/.ready-dev ## fetch the page's JavaScript libraries and Pyodide by npm, once
	@$(BIN)/python tools/fetch_npm.py web web/vendor pyodide build/pyodide tests build/web-tests

bundle: web ## the page and the default model as a folder for any static host, in build/bundle
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/wgpu-engine bundle build/bundle --model $(MODEL) --pyodide-dir build/pyodide

demo: $(VENV)/.ready ## set up, fetch the default model and answer a prompt
	@$(SETUP) adapter
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/wgpu-engine run $(MODEL) "$(PROMPT)" --temperature 0

screenshots: web ## pictures of the page with the default model, for the docs
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/python tools/screenshots.py

test: web ## set up and run all tests but the slow ones
	@$(SETUP) adapter
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/wgpu-engine pull $(ENCODER)
	$(BIN)/pytest -m "not slow" $(TESTS)

test-slow: web ## the sweeps that take minutes
	@$(SETUP) adapter
	@$(BIN)/wgpu-engine pull $(MODEL)
	$(BIN)/pytest -m slow

test-dawn: $(VENV)/.ready-dev ## the kernels' tests on Dawn and its compiler Tint, which browsers use
	@$(SETUP) dawn
	$(ON_DAWN) $(BIN)/pytest -m "not slow and not any_compiler" $(wildcard tests/gpu tests/ops) --ignore=tests/gpu/test_wgsl.py $(TESTS)

test-dawn-models: $(VENV)/.ready-dev ## every architecture beside its reference on Dawn, for about a quarter of an hour
	@$(SETUP) dawn
	$(ON_DAWN) $(BIN)/pytest -m "not slow" tests/models

test-wheel: web ## build the wheel and try it away from the checkout
	@rm -rf build/wheel
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(BIN)/pip install --quiet --no-deps --target build/wheel/site build/wheel/*.whl
	cd build/wheel && PYTHONPATH=site $(CURDIR)/$(BIN)/python $(CURDIR)/tools/check_wheel.py

lint: $(VENV)/.ready-dev ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.ready-dev ## let ruff format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(VENV)/.ready ## how fast the default model runs here
	@$(SETUP) adapter
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/wgpu-engine bench $(MODEL)

bench-compare: $(VENV)/.ready-dev ## the same beside llama.cpp, with ratios
	@$(SETUP) adapter
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/python benchmarks/compare.py $(MODEL)

bench-browser: web ## speed in a page, beside the same adapter from Python and beside wllama
	@$(SETUP) dawn
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/python benchmarks/browser.py $(MODEL)

bench-types: $(VENV)/.ready ## speed in every quantization type, beside Q4_0
	@$(SETUP) adapter
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/python benchmarks/quant_types.py $(MODEL)

bench-serving: $(VENV)/.ready ## what many clients of a server get
	@$(SETUP) adapter
	@$(BIN)/wgpu-engine pull $(MODEL)
	@$(BIN)/python benchmarks/serving.py $(MODEL)

clean: ## remove .venv, caches and what was built
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
