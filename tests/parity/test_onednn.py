"""oneDNN against the reference: every option of convolutions, threads, forks, programs."""

import gc
import os
import subprocess
import sys

import sdbr
from sdbr.backends.cpu import _kernels
from sdbr.backends.cpu.onednn import _onednn, convolution, library
from sdbr.backends.cpu.onednn.convolution import FORWARD, GRAD_W, WAYS, Convolution
from sdbr.base.errors import BackendError

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness.threads import in_threads
from tests.tolerances import ROUNDINGS, SUMS

from . import harness
from .generators import cases_of

_FOUND, _TEXT = library.find()
needs_library = pytest.mark.skipif(
    _FOUND is None, reason=f"needs libdnnl.so.3, as of the package onednn-cpu-gomp: {_TEXT}"
)
SHAPE = Convolution(FORWARD, (2, 8, 9, 9), (12, 8, 3, 3), (2, 12, 9, 9), (1, 1), (1, 1), (1, 1))


# --- kernels -------------------------------------------------------------------------------------
def run(sequence, *operands):
    _kernels.kernel_seconds("foreign", (sequence.address,), list(operands), 1.0, 1)
    return operands[-1]


def arrays(problem=SHAPE, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype("f") for shape in (problem.x, problem.w)]


@needs_library
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", ["convolution", "convolution_grad_x", "convolution_grad_w"])
def test_parity(op, way):
    with chainer.using_config("sdbr_onednn", way):
        cases = cases_of(op, "f4")
        prepared = harness.Prepared(cases, "cython").executable.prepared
        chosen = [choice.name == f"oneDNN {way}" for choice in prepared.choices.values()]
        assert sum(chosen) > len(chosen) / 3  # the others say why
        assert all(c.why.startswith("oneDNN") for c in prepared.choices.values() if not c.sequence)
        harness.assert_parity(cases, "cython")


@needs_library
@pytest.mark.parametrize("op", ["convolution", "convolution_grad_x", "convolution_grad_w"])
def test_two_threads(op):
    with (
        chainer.using_config("sdbr_onednn", "blocked"),
        chainer.using_config("sdbr_num_threads", 2),
    ):
        cases = [case for case in cases_of(op, "f4") if case.outs[0].base.size > 2000]
        choices = harness.Prepared(cases, "cython").executable.prepared.choices
        assert {choice.sequence.threads for choice in choices.values()} == {2}
        harness.assert_parity(cases, "cython")


@needs_library
def test_relu_keeps_nan_and_infinities():
    problem = Convolution(**{**SHAPE.__dict__, "relu": True})
    x, w = arrays()
    x[0, 0, 4, 4], x[1, 0, 4, 4] = np.nan, np.inf
    for way in WAYS:
        y = run(convolution.sequence(_FOUND, problem, way, 1), x, w, np.empty(problem.y, "f"))
        assert np.isnan(y[0, :, 3:6, 3:6]).all()
        assert np.isfinite(y[0, :, :3]).all() and (y[0, :, :3] >= 0).all()
        assert set(y[1, :, 4, 4].tolist()) <= {0.0, np.inf}


@needs_library
def test_results_are_the_same_each_time():
    x, w = arrays()
    for way in WAYS:
        sequence = convolution.sequence(_FOUND, SHAPE, way, 1)
        first, second = (run(sequence, x, w, np.empty(SHAPE.y, "f")) for _ in range(2))
        assert first.tobytes() == second.tobytes()


@needs_library
def test_empty_arrays_are_refused():
    problem = Convolution(FORWARD, (0, 8, 9, 9), SHAPE.w, (0, 12, 9, 9), (1, 1), (1, 1), (1, 1))
    with pytest.raises(BackendError, match="empty"):
        convolution.sequence(_FOUND, problem, "plain", 1)


@needs_library
def test_what_the_library_refuses_is_an_error_here():
    wrong = Convolution(FORWARD, SHAPE.x, (12, 7, 3, 3), SHAPE.y, (1, 1), (1, 1), (1, 1))
    with pytest.raises(BackendError, match="gave status"):
        convolution.sequence(_FOUND, wrong, "blocked", 1)


@needs_library
def test_threads_that_share_a_sequence():
    x, w = (4, 32, 24, 24), (32, 32, 3, 3)  # long enough for runs to meet
    problem = Convolution(FORWARD, x, w, x, (1, 1), (1, 1), (1, 1))
    x, w = arrays(problem)
    sequence = convolution.sequence(_FOUND, problem, "blocked", 1)
    want = run(sequence, x, w, np.empty(problem.y, "f"))
    wrong = []

    def work(factor):
        for _ in range(100):
            y = run(sequence, x * factor, w, np.empty(problem.y, "f"))
            if abs(y - want * factor).max() > SUMS * factor:
                wrong.append(factor)

    in_threads(4, lambda k: work(2.0**k))
    assert not wrong


@needs_library
def test_scratch_memory_goes_with_the_last_sequence():
    gc.collect()
    x, w = arrays()
    sequence = convolution.sequence(_FOUND, SHAPE, "blocked", 1)
    run(sequence, x, w, np.empty(SHAPE.y, "f"))
    assert _onednn.scratch_bytes() >= sequence.scratch > 0
    del sequence
    gc.collect()
    assert _onednn.alive() > 0 or _onednn.scratch_bytes() == 0


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_has_threads_of_its_own():
    code = """
import os, sys
import numpy as np
import sdbr
from sdbr.backends.cpu import _kernels
from sdbr.backends.cpu.onednn import convolution, library
found, _ = library.find()
ones = (1, 1)
x, w = (2, 64, 32, 32), (64, 64, 3, 3)
p = convolution.Convolution("convolution", x, w, x, ones, ones, ones)
s = convolution.sequence(found, p, "blocked", 2)
rng = np.random.default_rng(0)
x, w = rng.random(p.x, "f"), rng.random(p.w, "f")
def run():
    y = np.empty(p.y, "f")
    _kernels.kernel_seconds("foreign", (s.address,), [x, w, y], 1.0, 1)
    return y
want = run()
pid = os.fork()
if pid == 0:
    close = np.allclose(run(), want, rtol=1e-5)
    os._exit(0 if close and s.threads == 1 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert s.threads == 2 and np.array_equal(run(), want)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


# --- in programs ---------------------------------------------------------------------------------
def model():
    chain = chainer.Sequential(
        L.Convolution2D(3, 16, 3, pad=1),
        F.relu,
        L.Convolution2D(16, 8, 3, stride=2),
        L.Linear(None, 4),
    )
    return L.Classifier(chain)


@needs_library
@pytest.mark.parametrize("way", ["plain", "blocked"])
def test_a_step_and_what_explain_says(way):
    np.random.seed(0)
    plain = model()
    x, t = np.random.rand(4, 3, 12, 12).astype("f"), np.arange(4, dtype="i")
    plain(x, t)
    static = sdbr.static_graph(plain.copy(mode="copy"))
    optimizers = [chainer.optimizers.SGD(0.1).setup(plain)]
    optimizers.append(sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(static))
    with chainer.using_config("sdbr_onednn", way):
        for _ in range(4):
            for optimizer, link in zip(optimizers, (plain, static), strict=True):
                optimizer.update(link, x, t)
    assert static.schedule_manager.statistics.steps >= 2
    for a, b in zip(plain.params(), static.params(), strict=True):
        np.testing.assert_allclose(a.array, b.array, rtol=SUMS, atol=ROUNDINGS)
    report = sdbr.explain(static)
    programs = report.to_dict()["managers"][0]["schedules"][0]["programs"]
    (step,) = [p for p in programs if p["name"] == "step"]
    names = [choice["name"] for choice in step["choices"]]
    assert sorted(names) == sorted([FORWARD] * 2 + ["convolution_grad_x"] + [GRAD_W] * 2)
    assert {choice["kernel"] for choice in step["choices"]} == {f"oneDNN {way}"}
    assert f"chosen: oneDNN {way} x 5" in str(report)


def test_explain_says_that_there_is_no_library(monkeypatch):
    monkeypatch.setattr(library, "find", lambda: (None, "not found"))
    x, t = np.random.rand(4, 3, 12, 12).astype("f"), np.arange(4, dtype="i")
    static = sdbr.static_graph(model())
    with chainer.using_config("sdbr_onednn", "auto"):
        for _ in range(3):
            static(x, t)
    text = str(sdbr.explain(static))
    assert "chosen: own x 2 (convolution); oneDNN: not found" in text


@needs_library
def test_programs_share_a_sequence():
    with chainer.using_config("sdbr_onednn", "blocked"):
        cases = cases_of("convolution", "f4")[:2]
        first, second = (harness.Prepared(cases, "cython").executable.prepared for _ in range(2))
    assert first.choices[0].sequence is second.choices[0].sequence
