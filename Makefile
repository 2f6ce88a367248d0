# The front door. Every target does its own set-up, so each works as the first command.
#
#   make          the tool, at build/tarn
#   make demo     a tour with real data made on the spot
#   make test     all tests: plain and with sanitizers
#   make bench    the benchmarks (makes several GB of data under bench/data)
#   make fuzz     every fuzz target for FUZZ_SECONDS each (default 60)
#   make faults   failing memory, system calls, kills, power, threads, processes: in full
#   make soak     a loader over a failing disk for SOAK_MINUTES (default 30)
#   make format   clang-format over all sources
#   make install  into PREFIX (default /usr/local)
#   make clean

FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 30
PREFIX ?= /usr/local
MESON = meson

all: setup-build
	@test -f build/build.ninja || $(MESON) setup build --buildtype=release >/dev/null
	@ninja -C build

setup-build:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh build test

setup-bench:
	@scripts/setup.sh build test bench

demo: all
	@scripts/demo.sh

test: setup-test
	@scripts/test.sh format plain asan tsan install

valgrind: setup-test
	@scripts/test.sh valgrind

bench: setup-bench all
	@bench/run.py
	@bench/write.py
	@bench/python.py

fuzz: setup-test
	@scripts/fuzz.sh $(FUZZ_SECONDS)

faults: setup-test
	@scripts/test.sh faults

soak: setup-test
	@scripts/soak.sh $(SOAK_MINUTES)

format: setup-test
	@scripts/format.sh

install: all
	@$(MESON) configure build -Dprefix=$(PREFIX)
	@$(MESON) install -C build

clean:
	rm -rf build build-*

.PHONY: all setup-build setup-test setup-bench demo test valgrind bench fuzz faults soak format install clean
