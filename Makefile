# `make demo` and `make test` need Python >= 3.10, a C compiler, make and git; all else is set up here.
#
#   make demo  ARGS="--epochs 5"     the main job             make bench     the benchmarks
#   make test  ARGS="-k relu -x"     the test suite           make lint      ruff, cython-lint, C warnings
#   make fuzz  ARGS="--seconds 3600" random nets, programs    make soak      long runs: leaks, threads
#   make sanitize                    kernels and loop with the address and undefined-behaviour sanitizers;
#              ARGS="--fuzz --seconds 600" mutants of programs with them
#   make gpu-bundle                  what gpu-check needs on a machine without a network
#   make mutants                     small mistakes in rows and passes: do the tables of tests see them?
#   make docs                        the pages of docs/ as a site, into site/
#   make ready                       all that has to pass, on a clean clone of HEAD
#   make lock                        the versions of packages that all of this installs, anew
#
# PYTHON=python3.12 chooses the interpreter, VENV=folder the environment. Tests: SAMPLE=1 runs every case of
# the long tables, SEED=7 lets them draw other numbers.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test bench doctor fuzz soak sanitize mutants gpu-bundle docs lint build \
	clean ready lock options

# The first interpreter that can make an environment and compile against its headers.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	$$p .ci/check_python.py >/dev/null 2>&1 && echo $$p && exit; done; echo python3)
VENV ?= .venv
ARGS ?=

venv_python := $(VENV)/bin/python
pip := $(venv_python) -m pip --disable-pip-version-check

# Exact versions of what is installed here; none for a Python that is not tested.
lock := $(wildcard locks/python$(shell p=$(venv_python); test -x $$p || p=$(PYTHON); \
	$$p -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null).txt)

# See build-constraints.txt. Relative on purpose: pip splits these variables at spaces.
constraints := build-constraints.txt $(lock)
export PIP_CONSTRAINT := $(strip $(filter-out $(constraints),$(PIP_CONSTRAINT)) $(constraints))
export PIP_BUILD_CONSTRAINT := $(strip $(filter-out $(constraints),$(PIP_BUILD_CONSTRAINT)) $(constraints))

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed '/^The first/,$$d'

demo: build
	$(venv_python) -m sdbr demo $(ARGS)

# What tests draw follows from SEED and their names. SAMPLE=1 runs every case of the long tables.
SAMPLE ?= 4
SEED ?= 0
test: options build
	.ci/test $(venv_python) --sample $(SAMPLE) --seed $(SEED) $(ARGS)

options:
	@case '$(SEED)' in ''|*[!0-9]*) \
	  echo "make: SEED is a whole number from 0 on, not '$(SEED)'" >&2; exit 2;; esac
	@case '$(SAMPLE)' in ''|0*|*[!0-9]*) \
	  echo "make: SAMPLE is a whole number from 1 on, not '$(SAMPLE)'" >&2; exit 2;; esac

ready:
	@.ci/ready

lock: $(VENV)/.installed
	$(pip) install --quiet uv
	.ci/lock $(VENV)/bin/uv

bench: build $(VENV)/.bench
	$(venv_python) -m sdbr bench $(ARGS)

doctor: build
	$(venv_python) -m sdbr doctor

# Not part of the tests: as long as one likes. Failing cases are written to build/fuzz as scripts.
fuzz: build
	$(venv_python) -m tests.property.fuzz $(ARGS)

soak: build
	$(venv_python) -m tests.soak.soak $(ARGS)

# Builds into build/sanitize; ARGS names tests, the default is all that runs native code.
sanitize: build
	PYTHON=$(venv_python) .ci/sanitize $(ARGS)

# About 12 minutes on two cores. ARGS="--out FILE" keeps what was seen, "--compare FILE" names what is not any more.
mutants: build
	PYTHONHASHSEED=0 $(venv_python) -m tests.mutants $(ARGS)

# ARGS="--python python3.13" names another Python than 3.12, "--with NAME" what is missing there.
gpu-bundle:
	$(PYTHON) -m benchmarks.gpu_bundle $(ARGS)

# Docstrings of compiled classes are found by importing them. ARGS="-d FOLDER" names another folder.
docs: build $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(venv_python) -m mkdocs build --strict --clean $(ARGS)

# cython-lint looks for pycodestyle on PATH.
lint: $(VENV)/.lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	PATH="$(VENV)/bin:$$PATH" cython-lint src
	check="$${CC:-cc} -std=c99 -Wall -Wextra -Werror -fsyntax-only -Isrc/sdbr/kernels"; \
	{ printf '%s\n' $(filter-out %/unit.c,$(wildcard src/sdbr/kernels/*/*.c)); \
	for unit in $$(sed -n 's/.*X(\([a-z_]*\)).*/\1/p' src/sdbr/kernels/frame/units.h); do \
	  for level in baseline:BASELINE avx2:AVX2 avx512:AVX512; do \
	    echo -DSDBR_UNIT=$$unit -DSDBR_LEVEL=$${level%:*} -DSDBR_LEVEL_$${level#*:} \
	      src/sdbr/kernels/frame/unit.c; done; done; } | \
	xargs -P 2 -L 1 $$check

# Compiles what is older than its sources, and nothing when nothing is.
build: $(VENV)/.installed
	@$(venv_python) setup.py --quiet build_ext --inplace

$(VENV)/.installed: pyproject.toml $(constraints) | $(venv_python)
	@test -n "$(lock)" || echo "make: locks/ has no versions for this Python: the newest are installed"
	SDBR_EXTENSIONS=0 $(pip) install --quiet -e '.[demo,test,dev]'
	@touch $@

# What the extra names, without the package itself, which is there.
$(VENV)/.lint $(VENV)/.bench $(VENV)/.docs: $(VENV)/.%: pyproject.toml $(VENV)/.installed
	$(venv_python) .ci/requirements_of.py $* | xargs $(pip) install --quiet
	@touch $@

$(venv_python):
	@$(PYTHON) .ci/check_python.py
	$(PYTHON) -m venv --clear $(VENV)

# What setup.py keeps for other builds as well: files named by 64 digits, whatever lies beside them.
kept := $${SDBR_BUILD_CACHE-$${XDG_CACHE_HOME:-$$HOME/.cache}/sdbr/build}
clean:
	rm -rf build dist site .venv src/*.egg-info $(shell find src -name "_*.so")
	@for file in "$(kept)"/*; do name=$${file##*/}; \
	  case $$name in *[!0-9a-f]*) ;; *) test $${#name} != 64 || rm -f "$$file";; esac; done
