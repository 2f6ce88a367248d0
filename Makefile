# Every target does its own set-up, so each works as the first command.
#
#   make          the tool, at build/tarn
#   make demo     a tour: pictures drawn, packed, trained on, a run killed and resumed, a bit flipped
#   make check    the fast tests after an edit, in about a minute: plain build, unit, command and
#                 Python suites, format and words
#   make check-unit T=order       one unit program; T=order/NAME runs one test in it (* and ? match)
#   make check-cli T=index        one script of tests/cli
#   make check-python T=loader    one file of tests/python; T=loader/NAME: tests with NAME in their names
#   make test     all tests: plain and with sanitizers
#   make test-kills  worker processes killed a thousand times
#   make test-peers  tests with jax, ray, grain, transformers, lightning and accelerate (large downloads)
#   make test-ray  50 rounds of writing with Ray, with workers and nodes killed
#   make bench    compares tarn with its peers on small data, for docs/benchmarks: about 15 minutes
#   make bench-full  the same on large data, then indexing, writing and Python separately: hours, 40 GB
#                 in bench/data; run the other programs of bench/ by hand
#   make fuzz     every fuzz target, 10 to 50 million runs each (FUZZ_RUNS, FUZZ_SECONDS)
#   make damage   every way to damage a file of each format
#   make disagree 20,000 generated archives, compared with GNU tar, bsdtar and Python's tarfile
#   make hostile  hostile files, names and servers: what they cost, and what they can reach
#   make coverage lines and branches that the tests reach
#   make lint     clang-tidy and cppcheck
#   make valgrind unit tests under memcheck
#   make faults   failing memory, system calls, kills, power, threads, processes: in full
#   make soak     a loader over a failing disk for SOAK_MINUTES (default 30)
#   make soak-remote    processes that read over a failing line, with one failing cache, for
#                 SOAK_MINUTES (default 10)
#   make check-clang    a plain build with clang, and the unit tests
#   make check-arm64    a build for arm64, and the unit tests under qemu
#   make check-debian   the wheel, built and used in roots of Debian 12, 13 and sid, with Python 3.11,
#                 3.13 and 3.14 (RELEASES="bookworm trixie sid"; minutes each, needs root)
#   make docs     the documentation as a site with a search, at build-docs/site
#   make format   clang-format over all sources
#   make install  into PREFIX (default /usr/local)
#   make clean

SOAK_MINUTES ?= 30
PREFIX ?= /usr/local
MESON = meson

all: setup-build
	@test -f build/build.ninja || $(MESON) setup build --buildtype=release >/dev/null
	@ninja -C build $(NINJA_FLAGS)

setup-build:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh build test

setup-docs:
	@scripts/setup.sh build test docs

setup-bench:
	@scripts/setup.sh build test bench

# The demo's packages are installed while the library is built.
demo: setup-build
	@echo "building; this takes a minute or two the first time"
	@scripts/setup.sh demo & $(MAKE) --no-print-directory all NINJA_FLAGS=--quiet && \
	    wait $$! && scripts/demo.sh

check: setup-test
	@tests/run.py check

check-unit: setup-test
	@scripts/build.sh plain && scripts/check.sh unit $(T)

check-cli: setup-test
	@scripts/build.sh plain && scripts/check.sh cli $(T)

check-python: setup-test
	@scripts/build.sh plain && scripts/check.sh python $(T)

test: setup-docs
	@tests/run.py format words plain asan tsan fuzz docs install

check-clang: setup-test
	@tests/run.py clang

check-arm64:
	@scripts/setup.sh build test arm64
	@tests/run.py arm64

check-debian:
	@scripts/setup.sh build debian
	@scripts/debian.sh $(RELEASES)

# Worker processes killed at random, a thousand times.
test-kills:
	@scripts/setup.sh build test
	@scripts/build.sh plain
	@TARN_KILLS=1000 scripts/check.sh python workers/killed

test-peers:
	@scripts/setup.sh build test peers
	@tests/run.py peers

test-ray:
	@scripts/setup.sh build test peers
	@TARN_RAY_ROUNDS=50 tests/run.py peers --match ray_data

docs: setup-docs
	@scripts/build.sh plain && scripts/docs.py

valgrind: setup-test
	@tests/run.py valgrind

bench: setup-bench all
	@bench/peers.py --write-docs

bench-full: setup-bench all
	@bench/peers.py --full --write-docs
	@bench/run.py
	@bench/write.py
	@bench/python.py
	@bench/python_write.py

fuzz: setup-test
	@FUZZ_RUNS=$(FUZZ_RUNS) FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh full

damage: setup-test
	@scripts/damage.sh

disagree: setup-test
	@scripts/build.sh plain
	@TARN=build-plain/tarn TARN_INTEROP_COUNT=20000 .venv/bin/python \
	    tests/interop/test_tar_programs.py mutated

hostile: setup-test
	@TARN_FULL=1 tests/run.py hostile

coverage: setup-test
	@scripts/coverage.sh

lint: setup-test
	@scripts/lint.sh

faults: setup-test
	@TARN_FULL=1 tests/run.py faults

soak: setup-test
	@scripts/soak.sh $(SOAK_MINUTES)

soak-remote: setup-test
	@scripts/soak.sh remote $(SOAK_MINUTES)

format: setup-test
	@scripts/format.sh

install: all
	@$(MESON) configure build -Dprefix=$(PREFIX)
	@$(MESON) install -C build

clean:
	rm -rf build build-*

.PHONY: all setup-build setup-test setup-bench demo docs setup-docs check check-unit check-cli check-python check-clang check-arm64 check-debian test-peers test-kills test-ray test valgrind bench bench-full fuzz damage \
    disagree hostile faults soak soak-remote coverage lint format install clean
