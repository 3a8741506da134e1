"""One BLAS thread, so that results and timing of a test run do not depend on the machine."""

import gc
import os
import zlib

# BLAS libraries read these once, when they are loaded: before anything imports NumPy.
for _name in ("OPENBLAS", "MKL", "BLIS", "OMP", "VECLIB_MAXIMUM"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"

# Replays by themselves: where an audit finds a difference, what comes out is define-by-run's, and a
# test would see nothing. Tests of audits say so themselves; SDBR_AUDIT=1e9 audits every replay.
os.environ.setdefault("SDBR_AUDIT", "off")

# Our own kernels, nothing timed, nothing kept on disk; tests of the choice say so themselves.
os.environ.update(SDBR_ONEDNN="off", SDBR_TUNE="0", SDBR_CACHE="")

import sdbr  # noqa: E402, F401  (first: it makes Chainer importable)

import scipy.linalg  # noqa: E402, F401  (loads SciPy's own BLAS)
import threadpoolctl  # noqa: E402

# A plugin may have loaded NumPy before this file; held for the whole run.
_LIMIT = threadpoolctl.threadpool_limits(1)

import chainer  # noqa: E402
import pytest  # noqa: E402

# Tests look at the instructions that programs were made from.
chainer.global_config.sdbr_keep_instructions = True


def pytest_addoption(parser):
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="of the tables in modules marked long_table, about every Nth case",
    )


def pytest_collection_modifyitems(config, items):
    """Leave out what `--sample` does: by the name of the case, so that all workers agree."""
    every = config.getoption("sample")
    left_out = [
        item
        for item in items
        if item.get_closest_marker("long_table")
        and hasattr(item, "callspec")
        and zlib.crc32(item.nodeid.encode()) % every
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


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
