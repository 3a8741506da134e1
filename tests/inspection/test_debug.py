"""A call is run op by op on copies, and backends are compared op by op."""

import dataclasses
import pickle
import random

import sdbr
from sdbr.backends.numpy import executable

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

from .networks import Net, batch, trained, triple


class State(chainer.Chain):
    """Statistics, draws, captured state and a number that may change."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 4)
            self.bn = L.BatchNormalization(4)
            self.lstm = L.LSTM(4, 4)
        self.scale = 2.0

    def forward(self, x):
        h = F.dropout(self.bn(self.l(x)) * self.scale, 0.5)
        return triple(F.cumsum(self.lstm(h), axis=1))


def along(h):
    return F.cumsum(h, axis=1)


def called(chain, x=None, times=3, **options):
    model = sdbr.static_graph(chain, **options)
    for _ in range(times):
        model(batch()[0] if x is None else x)
    assert model.schedule_manager.statistics.replays > 0
    return model


def everything(model):
    """All that a call may change, as bytes."""
    arrays = [p.array.copy() for p in model.params()]
    fields = getattr(model, "bn", model).__dict__
    state = [np.array(fields.get(name)) for name in ("avg_mean", "avg_var", "N")]
    lstm = getattr(model, "lstm", None)
    held = None if lstm is None else (lstm.h.array.copy(), lstm.c.array.copy())
    statistics = model.schedule_manager.statistics.to_dict()
    return pickle.dumps((arrays, state, held, np.random.get_state(), random.getstate(), statistics))


@pytest.fixture
def wrong(monkeypatch):
    """Give an op of the NumPy backend another formula."""

    def spoil(name, formula):
        ops = [
            dataclasses.replace(op, formula=formula, direct=False) if op.name == name else op
            for op in executable.OPS
        ]
        monkeypatch.setattr(executable, "OPS", tuple(ops))

    return spoil


@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_a_call_step_by_step_gives_what_a_replay_gives(backend):
    model = called(State())
    x = batch()[0]
    before = everything(model)
    d = sdbr.debug(model, x, backend=backend)
    seen = [d.step() for _ in range(len(d.program))]
    assert seen == d.program.disassemble().splitlines()
    assert d.position == len(d.program) and "the end" in repr(d)
    assert everything(model) == before
    got = d.results()[0].copy()
    want = model(x).array  # draws what the debugger has drawn
    assert_near(got, want, RESULTS, "result")


def test_run_to_an_op_and_to_a_link():
    model, _ = trained()
    x, t = batch()
    model(x, t)
    d = sdbr.debug(model, x, t)
    line = d.run_to("/predictor/l2")
    assert d.position == 1 and "LinearFunction /predictor/l2" in line
    assert "before 1 linear" in repr(d)
    hidden = d.results()[0]
    want = np.maximum(x @ model.predictor.l1.W.array.T + model.predictor.l1.b.array, 0)
    assert_near(hidden, want, RESULTS, "hidden")
    d.run_to(2)
    assert d.position == 2
    for where in (1, 99, "/nowhere", "/predictor/l"):
        with pytest.raises(ValueError, match="where: expected an op from 2"):
            d.run_to(where)
    d.run()
    with pytest.raises(ValueError, match="where"):
        d.run_to("/")


def test_numbers_that_are_read_anew_are_told_apart():
    double = sdbr.static_graph(lambda x, scale: F.sum(x * scale) * 3)
    x = batch()[0]
    for scale in (0.5, 0.25, 2.0, 4.0):
        double(x, scale)
    assert double.schedule_manager.statistics.traces == 1
    listing = sdbr.debug(double, x, 8.0).program.disassemble()
    assert "value=0.5 at first" in listing and "value=3}" in listing
    d = sdbr.debug(double, x, 8.0)
    d.run()
    assert_near(d.results()[0], double(x, 8.0).array, RESULTS, "result")


def test_buffers_are_read_only_and_live():
    model = called(Net(along))
    x = batch()[0]
    d = sdbr.debug(model, x)
    for which in ("/l1/W", "argument 0", 0):
        with pytest.raises(ValueError, match="read-only"):
            d.buffer(which)[...] = 0
    np.testing.assert_array_equal(d.buffer("/l1/W"), model.l1.W.array)
    np.testing.assert_array_equal(d.buffer("argument 0"), x)
    assert not np.shares_memory(d.buffer("argument 0"), x)
    result = next(s.name for s in d.program.slots if s.name.startswith("output"))
    shown = d.buffer(result)
    assert not shown.any()
    d.run()
    assert shown.any()
    for which in (-1, 999, "/l9/W"):
        with pytest.raises(KeyError):
            d.buffer(which)


def test_another_backend_goes_on_from_there(wrong):
    model = called(Net(F.sigmoid))
    x = batch()[0]
    want = model(x).array
    wrong("linear", lambda x, w, b, activation: x @ w.T * 0)
    d = sdbr.debug(model, x)
    d.step()
    d.replay("numpy")
    d.run()
    assert not d.results()[0].any() and d.backend == "numpy"
    d = sdbr.debug(model, x, backend="numpy")
    d.step()
    assert not d.results()[0].any()
    d.replay("native").run()
    np.testing.assert_array_equal(d.results()[0], np.tile(model.l2.b.array, (len(x), 1)))
    np.testing.assert_array_equal(model(x).array, want)


def test_what_is_written_in_place_is_a_copy():
    model = called(State())
    d = sdbr.debug(model, batch()[0])
    before = d.buffer("/bn/avg_mean").copy()
    d.run()
    assert (d.buffer("/bn/avg_mean") != before).any()
    np.testing.assert_array_equal(model.bn.avg_mean, before)


def test_backends_agree():
    model = called(State())
    before = everything(model)
    found = sdbr.compare_backends(model, batch()[0])
    assert found.differs is None and found.nan is None
    assert found.ops == len(model.schedule_manager.static_schedule.programs["forward"])
    assert str(found) == f"{found.ops} ops: native and numpy agree"
    assert everything(model) == before


def test_the_first_op_that_differs_is_named(wrong):
    model = called(Net(along))
    wrong("linear", lambda x, w, b, activation: x @ w.T + b + np.float32(0.5) * (x.shape[1] == 8))
    found = sdbr.compare_backends(model, batch()[0]).differs
    assert (found.label, found.link) == ("LinearFunction", "/l2") and "networks.py" in found.line
    assert found.largest == pytest.approx(0.5, rel=RESULTS)
    assert "LinearFunction /l2 at " in str(found)
    text = str(sdbr.compare_backends(model, batch()[0]))
    assert "is the first that differs: by 0.5, " in text
    much = 2 * found.relative
    assert sdbr.compare_backends(model, batch()[0], tolerance=much).differs is None


def test_differences_do_not_add_up(wrong):
    """What comes after gets the same on both sides."""
    model = called(Net(along))
    wrong("linear", lambda x, w, b, activation: x @ w.T + b + np.float32(0.5) * (x.shape[1] == 3))
    found = sdbr.compare_backends(model, batch()[0])
    assert found.differs.link == "/l1"
    d = sdbr.debug(model, batch()[0])
    d.run()
    np.testing.assert_array_equal(d.results()[0], model(batch()[0]).array)


def test_where_a_nan_first_appears():
    model = called(Net(lambda h: along(F.log(h - 100))))
    with np.errstate(invalid="ignore"):
        found = sdbr.compare_backends(model, batch()[0])
    assert found.nan is not None and found.differs is None
    assert "Log" in found.nan.label or "log" in found.nan.label
    assert "a NaN first appears in op" in str(found)


def test_calls_that_cannot_be_debugged():
    x = batch()[0]
    with pytest.raises(TypeError, match="obj: expected a link"):
        sdbr.debug(3, x)
    fresh = sdbr.static_graph(Net())
    with pytest.raises(ValueError, match="call the model with them"):
        sdbr.debug(fresh, x)
    model = called(Net())
    with pytest.raises(ValueError, match="call the model with them"):
        sdbr.debug(model, batch(7)[0])
    with pytest.raises(sdbr.BackendError, match="backend: expected 'native' or 'numpy', got 'x'"):
        sdbr.debug(model, x, backend="x")

    @sdbr.static_code
    def tell():
        pass

    def telling(h):
        tell()
        return h

    with pytest.raises(ValueError, match=r"static_code .*tell at .* would run"):
        sdbr.compare_backends(called(Net(telling)), x)


def test_errors_name_the_op():
    model = called(L.EmbedID(3, 2), np.arange(3, dtype="i"))
    d = sdbr.debug(model, np.arange(3, dtype="i") + 1)
    with pytest.raises(IndexError, match="EmbedIDFunction"):
        d.run()
