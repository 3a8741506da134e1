"""One BLAS thread, so that results and timing of a test run do not depend on the machine."""

import argparse
import functools
import gc
import hashlib
import os
import random
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

# BLAS libraries read these once, when they are loaded: before anything imports NumPy.
for _name in ("OPENBLAS", "MKL", "BLIS", "OMP", "VECLIB_MAXIMUM"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"

# Replays by themselves: where an audit finds a difference, what comes out is define-by-run's, and a
# test would see nothing. Tests of audits say so themselves; SDBR_AUDIT=1e9 audits every replay.
os.environ.setdefault("SDBR_AUDIT", "off")

# Our own kernels, nothing timed, nothing kept on disk; tests of the choice say so themselves.
os.environ.update(SDBR_ONEDNN="off", SDBR_TUNE="0", SDBR_CACHE="")

# Tests with arrays of CuPy have processes of their own: on a look-alike of it ("cupy",
# tests/test_on_cupy.py), on CuPy itself with a GPU that runs nothing ("null",
# tests/test_on_null_gpu.py), which have to be there before Chainer, or on the GPU of this machine
# ("gpu").
ON = os.environ.get("SDBR_TESTS_ON", "")
if ON == "cupy":
    sys.path.insert(0, str(Path(__file__).parent / "harness" / "host_cupy"))
elif ON == "null":
    from tests.harness import null_gpu

    null_gpu.install()

import sdbr  # noqa: E402, F401  (first: it makes Chainer importable)

import scipy.linalg  # noqa: E402, F401  (loads SciPy's own BLAS)
import threadpoolctl  # noqa: E402

# A plugin may have loaded NumPy before this file; held for the whole run.
_LIMIT = threadpoolctl.threadpool_limits(1)

from sdbr.call import outside  # noqa: E402

import chainer  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

collect_ignore = [] if ON else ["on_cupy", "on_null_gpu"]

# Tests look at the instructions that programs were made from.
chainer.global_config.sdbr_keep_instructions = True


#: Cases of one test from which on it is a long table, of which a sample runs.
LONG = 8


def pytest_addoption(parser):
    parser.addoption(
        "--seed",
        type=from_zero,
        default=0,
        metavar="N",
        help="what tests draw follows from this number and their names",
    )
    parser.addoption(
        "--sample",
        type=from_one,
        default=1,
        metavar="N",
        help=f"of tests with {LONG} cases or more about every Nth case: each commit others",
    )
    parser.addoption(
        "--alone",
        choices=("only", "leave-out"),
        help="of tests marked alone: these and no others, or all but these",
    )
    parser.addoption(
        "--at-most", type=int, metavar="N", help="so many tests, from all over those chosen"
    )
    parser.addoption(
        "--seconds",
        type=float,
        metavar="S",
        help="in any order; those that have not begun by then are skipped",
    )


def pytest_configure(config):
    # What is not static, or traced too often, says so: most tests look at something else. Here, as
    # pyproject.toml would have it imported before this file has set the environment.
    config.addinivalue_line("filterwarnings", "default::sdbr.SdbrWarning")
    seconds = config.getoption("seconds")
    config.stash[_END] = float("inf") if seconds is None else time.monotonic() + seconds


def from_zero(text: str, least: int = 0) -> int:
    """A whole number of the command line."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least} on, got {text!r}")
    return int(text)


def from_one(text: str) -> int:
    return from_zero(text, 1)


def _number_of(text: str) -> int:
    return zlib.crc32(text.encode())


@functools.cache
def tree() -> str:
    """The hash of what is checked out, or nothing: which share of a table runs follows from it."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def pytest_report_header(config):
    every = config.getoption("sample")
    share = f"share {_number_of(tree()) % every} of {every} of long tables, " if every > 1 else ""
    return f"sdbr: {share}seed {config.getoption('seed')}"


def _seed(config, name: str) -> None:
    """What is drawn from now on hangs on ``--seed`` and this name, not on what ran before."""
    seed = _number_of(f"{config.getoption('seed')} {name}")
    np.random.seed(seed)
    random.seed(seed)
    if ON:  # CuPy makes its generators when they are first asked for
        os.environ["CUPY_SEED"] = str(seed)
        sys.modules["cupy"].random.reset_states()


def pytest_collectstart(collector):
    """Modules may draw when they are imported."""
    _seed(collector.config, collector.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Fixtures that several tests share draw the same, whichever of these tests comes first."""
    if fixturedef.scope == "function":
        return (yield)
    states = np.random.get_state(), random.getstate()
    name = f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', '')}]"
    _seed(request.config, name)
    try:
        return (yield)
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])


@pytest.fixture(autouse=True)
def draws_follow_from_the_name(request):
    """Each test begins with generators of its own: ``--seed N`` tries other numbers."""
    _seed(request.config, request.node.nodeid)


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config, items):
    """Leave out what options do: by the name of the case, so that all workers agree."""
    every, most = config.getoption("sample"), config.getoption("at_most")
    share = _number_of(tree()) % every
    alone = config.getoption("alone")
    cases = Counter(_test_of(item) for item in items)
    gone = {
        item
        for item in items
        if (cases[_test_of(item)] >= LONG and _number_of(item.nodeid) % every != share)
        or (alone and (alone == "only") != bool(item.get_closest_marker("alone")))
    }
    if most is not None:
        gone.update(sorted((item for item in items if item not in gone), key=_drawn)[most:])
    if gone:
        config.hook.pytest_deselected(items=[item for item in items if item in gone])
        items[:] = [item for item in items if item not in gone]
    if config.getoption("seconds") is not None:
        items.sort(key=_drawn)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if time.monotonic() > item.config.stash[_END]:
        pytest.skip("the time that --seconds gives was over")


_END = pytest.StashKey()


def pytest_ignore_collect(collection_path, config):
    """Of tests marked alone few files have any: the others need not be imported for them."""
    only = config.getoption("alone") == "only" and collection_path.suffix == ".py"
    if only and "mark.alone" not in collection_path.read_text(encoding="utf-8"):
        return True
    return None


@pytest.fixture
def share(request):
    """Of what a test goes through by itself, a list of names: those that run, as of long tables."""
    every = request.config.getoption("sample")
    return lambda names: share_of(names, every, _number_of(tree() + request.node.nodeid))


def share_of(names: list, every: int, number: int) -> list:
    """One of so many shares, and never none."""
    return names[number % every % len(names) :: every]


def _test_of(item) -> str:
    """The test that this is a case of."""
    return item.nodeid.partition("[")[0]


def _drawn(item) -> bytes:
    """A draw that is the same each time, of names that are alike as well: each commit another."""
    return hashlib.blake2b(f"{tree()} {item.nodeid}".encode(), digest_size=8).digest()


def pytest_collection_finish(session):
    """The collector leaves out the tests themselves: each of its runs would go through them all."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def collected_modules():
    """The collector knows of the modules of the tests again, and who asks it for referrers, too."""
    gc.unfreeze()
    yield
    gc.freeze()


def _configuration() -> tuple[dict, dict]:
    return dict(chainer.global_config.__dict__), dict(chainer.config._local.__dict__)


@pytest.fixture(autouse=True)
def leave_the_configuration_as_it_was():
    """A test that changes ``chainer.config`` for those after it fails itself."""
    before = _configuration()
    yield
    after = _configuration()
    for config, entries in zip((chainer.global_config, chainer.config._local), before, strict=True):
        config.__dict__.clear()
        config.__dict__.update(entries)
    assert after == before


@pytest.fixture(autouse=True)
def losses_outside_of_calls_are_seen_anew():
    """Which of them are static calls does not depend on the tests before."""
    outside.forget()
