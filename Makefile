# SPDX-License-Identifier: MIT
#
# A thin front of Meson. `make demo` and `make check` are all a new user
# needs: they install what is missing (as root; otherwise they say how).

BUILD ?= build
PREFIX ?= /usr/local
MESON_FLAGS ?=

.PHONY: all demo check check-all check-backends check-fresh check-san \
	check-clients check-kernels check-anywhere dist \
	check-mutants sample-mutants reliability bench stress differences environments benchmarks lint \
	install clean

# The library and the tool; every other target builds what it needs beside.
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet product

# Configured anew when PREFIX changes, for `make install PREFIX=`.
$(BUILD)/build.ninja:
	@tools/need build
	@meson setup $(BUILD) --prefix=$(PREFIX) -Dtests=disabled $(MESON_FLAGS) \
		>/dev/null

demo:
	@tools/need build demo
	@tools/configure $(BUILD)
	@ninja -C $(BUILD) --quiet demonstration
	@python3 bench/demo.py --build $(BUILD)

# What a change of the library can break, in four and a half minutes.
check:
	@tools/need build check
	@tools/configure $(BUILD) -Dtests=enabled
	@tools/run-tests $(BUILD) --no-suite long --no-suite client \
		--no-suite stress --no-suite backends --no-suite anywhere \
		--no-suite kernels

# All of `check`, what takes longer, and the tests of all else: the benchmark,
# the models, the tree. PASSED=FILE: without those that FILE names (tools/check-fresh).
check-all:
	@tools/need build check lint all
	@tools/configure $(BUILD) -Dtests=enabled
	@tools/run-tests $(BUILD) $(if $(PASSED),--but $(PASSED)) --no-suite client \
		--no-suite stress --no-suite backends --no-suite anywhere --no-suite kernels

# With the kernel's own AIO behind the library, and with its io_uring. Each test of a
# program proves by the statistics that the kernel has executed its requests.
check-backends:
	@tools/need build check
	@tools/configure $(BUILD) -Dtests=enabled
	@tools/run-tests $(BUILD) --suite backends

# `demo` and `check` of this commit in a new minimal Debian. Needs root.
check-fresh:
	@tools/check-fresh $(BUILD)

check-san:
	@tools/need build san
	@tools/configure $(BUILD)-asan -Dtests=enabled -Db_lto=false -Db_sanitize=address,undefined -Dbuildtype=debugoptimized
	@tools/configure $(BUILD)-tsan -Dtests=enabled -Db_lto=false -Db_sanitize=thread -Dbuildtype=debugoptimized
	@tools/run-tests $(BUILD)-asan --suite unit --suite torture --suite host
	@tools/run-tests $(BUILD)-tsan --suite unit --suite torture --suite host

check-clients:
	@tools/need build check clients
	@tools/configure $(BUILD) -Dtests=enabled
	@tools/run-tests $(BUILD) --suite client

# Programs and tests on other kernels, which Debian's User-mode Linux is.
check-kernels:
	@tools/need build check kernels
	@tools/configure $(BUILD) -Dtests=enabled
	@tools/run-tests $(BUILD) --suite kernels

# Other systems and processors: roots are fetched, and built and run in.
check-anywhere:
	@tools/need build check anywhere
	@tools/configure $(BUILD) -Dtests=enabled
	@tools/run-tests $(BUILD) --suite anywhere

# The files of a release, from the newest commit, or REVISION=TAG, in $(BUILD)/dist.
dist:
	@tools/need build dist
	@tools/dist $(if $(REVISION),--revision $(REVISION)) $(BUILD)

# Each program that tries hard to lose something, in half an hour, beside the sum of the
# recorded runs. RECORD=1 records this run; PAGE=1 writes doc/reliability.md. SECONDS=N is
# for each row, and ROWS='NAME...' chooses some.
reliability:
	@tools/need build check
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet
	@python3 -B test/reliability/reliability.py --build $(BUILD) $(if $(RECORD),--record) \
		$(if $(PAGE),--page) $(if $(SECONDS),--seconds $(SECONDS)) $(ROWS)

check-mutants:
	@tools/need build check san
	@tools/check-mutants $(BUILD)

# What share of faults made at random the unit and abi tests find: over an hour.
sample-mutants:
	@tools/need build check san
	@tools/sample-mutants $(BUILD)
	@tools/sample-mutants --orders --number 20 $(BUILD)

stress:
	@tools/need build check san anywhere
	@tools/configure $(BUILD) -Dtests=enabled
	@tools/run-tests $(BUILD) --suite stress

bench:
	@tools/need build bench
	@tools/configure $(BUILD)
	@ninja -C $(BUILD) --quiet benchmark-programs
	@python3 bench/run.py --build $(BUILD) --report $(BUILD)/bench-report

# doc/benchmarks.md, its picture and what README.md has of it, from the last file
# of bench/results, or RESULTS=FILE.
benchmarks:
	@tools/need bench
	@python3 -B bench/benchmarks.py $(RESULTS)

# doc/differences.md, from the table of test/conform.
differences:
	@tools/need build check
	@tools/configure $(BUILD) -Dtests=enabled
	@ninja -C $(BUILD) --quiet differences

lint:
	@tools/need build lint
	@tools/lint

# The table of doc/compatibility.md of where the library was run, from these runs.
environments:
	@tools/need build check kernels anywhere clients
	@tools/configure $(BUILD) -Dtests=enabled
	@tools/run-tests $(BUILD) --suite kernels --suite anywhere --suite client
	@tools/environments $(BUILD)

install: $(BUILD)/build.ninja
	@meson configure $(BUILD) --prefix=$(PREFIX) >/dev/null
	@ninja -C $(BUILD) --quiet installation
	@meson install -C $(BUILD) --no-rebuild --quiet

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan
