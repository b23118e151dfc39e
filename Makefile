# Everything spillcast does for those who build it; `make help` lists it.

VENV := .venv
PYTHON ?= python3
MINUTES ?= 52
# How the core is built: `release`, or `quick`, as Rust's tests are, in half of the time.
PROFILE ?= release
BIN := $(VENV)/bin
PRELOAD := python/spillcast/_preload.so
# BPF=no builds without the eBPF programs, which clang compiles, or else the clang in ziglang.
ifdef BPF
export SPILLCAST_BPF := $(BPF)
endif
BUILT := $(VENV)/built$(if $(filter no,$(BPF)),-no-bpf)
# What these test takes the time it takes: they run one by one.
TIMED := $(addprefix tests/,forecast/duckdb/test_compression.py lab/test_demo.py lab/test_slow_writes.py \
	recording/test_blocked.py recording/test_capture_cost.py storage/test_closed_loop.py \
	storage/test_emulation.py storage/test_grid.py)
# What builds and checks what goes to other machines; PLATFORMS=native is one, none is all.
RELEASE := build/release/tools
PLATFORMS ?=
# What takes minutes and changes seldom: browsers, notebooks, Sphinx, experiments on engines.
LONG := $(addprefix tests/,engines/tpc/test_tpc.py lab/io_size/test_on_emulated.py \
	lab/test_kernel_slowed.py lab/test_machine_measured.py lab/test_memory_sweep.py lab/test_verify.py \
	recording/test_spark_executors.py report/test_report_pages.py skeptic/test_skeptic.py test_docs_site.py test_interactive.py \
	test_notebook_extra.py)
# What ends recorders at drawn moments, with more of them than daily.
KILLED := $(addprefix tests/,cli/test_ended_verbs.py engines/postgres/live/test_postgres_killed.py \
	recording/test_killed.py storage/test_probe.py)
# More workers than cores: tests wait for servers and slow storage for most of their time. One that
# ends is not replaced, for pytest-xdist then waits forever.
WORKERS := 4
test-python: WORKERS := 5
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# Real servers and captures share two cores: up to three tests that failed, which is status 1, are run
# once more, alone, and named.
AGAIN := { [ $$? = 1 ] && $(BIN)/python tests/again.py; }
# Where bytecode is not kept, each start of a command compiles all of its modules.
unexport PYTHONDONTWRITEBYTECODE
RUST := $(shell find crates -name '*.rs' -o -name '*.[ch]' -o -name '*.tsv' -o -name Cargo.toml) Cargo.toml Cargo.lock

.PHONY: help build demo docs test nightly fuzz check wheel recorder bundle wheel-check bench bench-wide
.PHONY: constants truth truth-quick requirements clean check-rust check-python test-rust test-python
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(BUILT) ## the virtual environment, the Rust core and the commands, all in this folder

$(VENV)/tools: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(BUILT): $(VENV)/tools $(RUST) pyproject.toml lab/pyproject.toml
	[ "$(BPF)" = no ] || command -v "$${CLANG:-clang}" >/dev/null || $(BIN)/python -m pip install --quiet \
		--disable-pip-version-check "$$(grep '^ziglang==' release/requirements.txt)"
	cargo build --profile $(PROFILE) --locked -p spillcast-preload
	install -m 755 target/$(PROFILE)/libspillcast_preload.so $(PRELOAD)
	# With what the binding asks of the same crates: maturin and the tests then find them compiled.
	SPILLCAST_PRELOAD_GNU=$(CURDIR)/$(PRELOAD) cargo build --profile $(PROFILE) --locked \
		-p spillcast-recorder -p spillcast-python --bin spillcast-recorder
	install -m 755 target/$(PROFILE)/spillcast-recorder $(BIN)/
	# Whatever other environment is active, it goes into the one of this folder.
	VIRTUAL_ENV=$(CURDIR)/$(VENV) PIP_QUIET=1 $(BIN)/maturin develop --profile $(PROFILE) --locked --quiet
	# As a folder on the path: a finder of modules takes each start of Python twice as long.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--config-settings editable_mode=compat --editable ./lab
	@rm -f $(VENV)/built*
	@touch $@

demo: build ## the whole loop on a real engine: record, probe, forecast, run it there, compare
	$(BIN)/spillcast demo

test: build ## the tests; what wants a missing system package is skipped by name
	$(MAKE) --no-print-directory -j 2 test-rust test-python

# Both at once: a third of the time of either is spent waiting for servers and storage.
test-rust:
	env -u MAKEFLAGS -u MFLAGS cargo test --profile quick --locked --workspace --quiet --tests

test-python:
	rm -rf .pytest_cache
	# In a new clone each worker would compile all files by itself.
	[ -d tests/__pycache__ ] || $(BIN)/pytest --collect-only --quiet tests >/dev/null || true
	$(BIN)/pytest $(PARALLEL) -m "not nightly" $(addprefix --ignore=,$(TIMED) $(LONG)) || $(AGAIN)

nightly: export SPILLCAST_SERVERS = all
nightly: export SPILLCAST_KILLS = 10
nightly: build ## the tests that take long, and five minutes of damaged evidence; rewrites docs/nightly.md
	rm -rf .pytest_cache build/nightly
	$(BIN)/pytest --junitxml build/nightly/long.xml $(PARALLEL) $(LONG) tests/engines/postgres/move || $(AGAIN)
	rm -rf .pytest_cache
	$(BIN)/pytest --junitxml build/nightly/timed.xml $(TIMED) || $(AGAIN)
	rm -rf .pytest_cache
	$(BIN)/pytest --junitxml build/nightly/nightly.xml -m nightly \
		$(addprefix --ignore=,$(TIMED) $(LONG) $(KILLED) tests/engines/postgres/move) || $(AGAIN)
	rm -rf .pytest_cache
	$(BIN)/pytest --junitxml build/nightly/killed.xml $(KILLED) || $(AGAIN)
	# The fast reader of traces must agree with a slow one.
	TRACES_S=30 cargo test --profile quick --locked --workspace --test oracle damaged -- --nocapture
	$(MAKE) fuzz >build/nightly/fuzz.txt; status=$$?; cat build/nightly/fuzz.txt; exit $$status
	$(BIN)/python docs/generate_nightly.py

fuzz: build ## damaged evidence for every reader, MINUTES=5; prints a count of outcomes
	PYTHONPATH=tests $(BIN)/python -m fuzz --known
	PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),5)

check: build ## formatting, lints, types
	$(MAKE) --no-print-directory -j 2 check-rust check-python

check-rust:
	cargo fmt --check
	env -u MAKEFLAGS -u MFLAGS cargo clippy --profile quick --locked --workspace --all-targets -- --deny warnings

check-python:
	$(BIN)/ruff format --check python lab tests bench docs release
	$(BIN)/ruff check --no-cache python lab tests bench docs release
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest spillcast._core --ignore-disjoint-bases

$(RELEASE)/ready: release/requirements.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

wheel: $(RELEASE)/ready ## a wheel for each processor and C library, in dist; PLATFORMS=native for this one
	$(RELEASE)/bin/python -m release.wheel --profile $(PROFILE) --platform $(PLATFORMS)

recorder: $(RELEASE)/ready ## the recorder without Python, one static file a processor, in dist; PLATFORMS=native
	$(RELEASE)/bin/python -m release.recorder --profile $(PROFILE) --platform $(PLATFORMS)

bundle: $(RELEASE)/ready ## wheel, all that it depends on, recorder and installer in one tar, after the two above
	$(RELEASE)/bin/python -m release.bundle --platform $(or $(PLATFORMS),native)

wheel-check: $(RELEASE)/ready ## what the wheels promise, and the loop from clean environments; CHECK=--quick
	$(RELEASE)/bin/python -m release.check $(CHECK)

docs: build ## the docs as a site and a man page, in build/docs
	$(BIN)/sphinx-build --fresh-env --write-all --quiet --fail-on-warning -b html docs build/docs/html
	$(BIN)/sphinx-build --fresh-env --write-all --quiet --fail-on-warning -b man docs build/docs/man

bench: build ## timings, each with its peer in the same run
	$(BIN)/python -m bench

bench-wide: build ## captures on 64 emulated CPUs, ten minutes; wants QEMU
	$(BIN)/python -m bench.wide

constants: build ## measure the constants of forecasts, some minutes; NAMES="memory residuals" for some
	$(BIN)/python -m bench calibrate $(NAMES)

truth: build ## forecasts against measured runs, MINUTES=52; rewrites docs/accuracy.md and README's table
	mkdir -p docs/accuracy
	$(BIN)/spillcast verify --engine all --minutes $(MINUTES) --output docs/accuracy/cases.parquet
	$(BIN)/python docs/generate_accuracy.py

truth-quick: build ## the same in 5 minutes, one run of each; prints it
	$(BIN)/spillcast verify --engine all --minutes 5.5 --repeat 1

requirements: $(VENV)/tools ## pin the newest versions of all that is used
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --no-header --no-annotate --no-emit-index-url \
		--python-version 3.11 --extra dev pyproject.toml --output-file requirements.txt

clean: ## remove all that was built
	rm -rf $(VENV) build dist target $(PRELOAD) python/spillcast/*.so
