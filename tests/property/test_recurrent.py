"""Random unrolled networks with the products of all steps put together, and without: the same."""

from __future__ import annotations

import importlib

import sdbr
from sdbr.program import memory

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.tolerances import DOUBLE

WORDS, UNITS = 7, 6
#: The package has a function of this name.
MODULE = importlib.import_module("sdbr.program.passes.recurrent")


class Rnn(chainer.Chain):
    """Input product and lateral product, then an activation: the oldest recurrent link."""

    def __init__(self, n_in, n_out, activation):
        super().__init__()
        self.h = None
        self.activation = activation
        with self.init_scope():
            self.up = L.Linear(n_in, n_out)
            self.lateral = L.Linear(n_out, n_out, nobias=True)

    def reset_state(self):
        self.h = None

    def forward(self, x):
        y = self.up(x)
        if self.h is not None:
            y = y + self.lateral(self.h)
        self.h = self.activation(y)
        return self.h


CELLS = {
    "lstm": L.LSTM,
    "gru": L.StatefulGRU,
    "peephole": L.StatefulPeepholeLSTM,
    "tanh": lambda n, m: Rnn(n, m, F.tanh),
    "relu": lambda n, m: Rnn(n, m, F.relu),
    "leaky": lambda n, m: Rnn(n, m, F.leaky_relu),
}


class Unrolled(chainer.Chain):
    """Layers of random cells over random steps; what else there is, the generator decides."""

    def __init__(self, seed: int):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.steps = int(rng.integers(5, 8))
        self.lengths = [5] * self.steps
        kinds = list(CELLS)
        names = [kinds[seed % len(kinds)], *rng.choice(kinds, int(rng.integers(0, 3)))]
        ragged = all(name == "lstm" for name in names) and rng.random() < 0.7
        if ragged:
            self.lengths = sorted(rng.integers(1, 6, self.steps).tolist(), reverse=True)
        self.per_step = bool(rng.random() < 0.6)
        self.dropout = bool(rng.random() < 0.4)
        self.embeds = bool(rng.random() < 0.6)
        self.skips = bool(rng.random() < 0.3)
        self.returns = bool(rng.random() < 0.5)
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, UNITS)
            self.out = L.Linear(UNITS, WORDS)
            self.cells = chainer.ChainList(*(CELLS[name](UNITS, UNITS) for name in names))

    def forward(self, x, words, labels):
        for cell in self.cells:
            cell.reset_state()
        loss, hs = 0, []
        for t, n in enumerate(self.lengths):
            h = self.embed(words[t, :n]) if self.embeds else x[t, :n]
            first = h
            for cell in self.cells:
                h = cell(F.dropout(h, 0.3) if self.dropout else h)
            if self.skips:
                h = h + first
            hs.append(h)
            if self.per_step:
                loss += F.softmax_cross_entropy(self.out(h), labels[t, :n])
        if not self.per_step:
            hs = F.concat(hs, axis=0)
            ts = F.concat([labels[t, :n] for t, n in enumerate(self.lengths)], axis=0)
            loss = F.softmax_cross_entropy(self.out(hs), ts)
        return (loss, h) if self.returns else loss


def data(step: int):
    rng = np.random.default_rng([17, step])
    x = rng.standard_normal((8, 5, UNITS))
    words, labels = (rng.integers(0, WORDS, (8, 5)).astype(np.int32) for _ in range(2))
    return x, words, labels


def calls(seed: int, static: bool, calls: int = 4):
    """Losses and all gradients of some calls; the model."""
    found = []
    np.random.seed(seed)
    model = Unrolled(seed)
    if static:
        sdbr.static_graph(model, on_dynamic="raise")
    for step in range(calls):
        np.random.seed(step)
        x, words, labels = data(step)
        x = chainer.Variable(x)
        model.cleargrads()
        result = model(x, words, labels)
        loss = result[0] if model.returns else result
        total = loss + F.sum(result[1] * 0.1) if model.returns else loss
        total.backward()
        found.append(
            [
                loss.array.copy(),
                *(None if p.grad is None else p.grad.copy() for p in _params(model)),
                x.grad,
            ]
        )
    return found, model


def steps(model, inputs=data, n: int = 4):
    """Parameters after some whole steps, and the program."""
    sdbr.static_graph(model, on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    for step in range(n):
        np.random.seed(step)
        optimizer.update(model, *inputs(step))
    statistics = model.schedule_manager.statistics
    assert (statistics.replays, statistics.python_ops) == (n - 1, 0)
    return [p.array.copy() for p in _params(model)], model.static_schedule.programs["step"]


def _params(model):
    return [p for _, p in sorted(model.namedparams())]


def close(got, want):
    for a, b in zip(got, want, strict=True):
        if b is None:
            assert a is None
            continue
        np.testing.assert_allclose(a, b, rtol=0, atol=DOUBLE * max(1, np.abs(b).max()))


@pytest.fixture(autouse=True)
def double():
    with chainer.using_config("dtype", np.float64):
        yield


@pytest.fixture
def any_size(monkeypatch):
    """Rewritten whatever it costs: in networks as small as these it would often be left."""
    monkeypatch.setattr(MODULE, "MORE", 10)


def without():
    return chainer.using_config("sdbr_disabled_passes", "recurrent")


def products(program) -> list:
    """The matrix products of a program."""
    return [i for i in program.instructions if i.op.family == "product"]


@pytest.mark.parametrize("seed", range(16))
def test_calls(seed, any_size):
    want, _ = calls(seed, static=False)
    got, model = calls(seed, static=True)
    for a, b in zip(got, want, strict=True):
        close(a, b)
    statistics = model.schedule_manager.statistics
    assert (statistics.replays, statistics.python_ops) == (3, 0)
    programs = model.static_schedule.programs
    for program in (programs["forward"], *programs["backward"]):
        assert memory.check_overlaps(program.instructions, program.kept) == []


def seeded(seed: int) -> Unrolled:
    np.random.seed(seed)
    model = Unrolled(seed)
    model.returns = False
    return model


@pytest.mark.parametrize("seed", range(16))
def test_steps(seed, any_size):
    got, program = steps(seeded(seed))
    with without():
        want, plain = steps(seeded(seed))
    close(got, want)
    assert memory.check_overlaps(program.instructions, program.kept) == []
    assert len(products(program)) < len(products(plain))


@pytest.mark.parametrize("seed", [0, 1, 4])
@pytest.mark.parametrize("rejected", [0, 1, 2, 3])
def test_what_would_cost_memory_is_undone(seed, rejected, monkeypatch):
    """Sums are added step by step then, or products stay as they are, or everything does.

    Where nothing is rejected, all is as it was while the memory of the program before is counted.
    """
    attempts = []
    find, measure = MODULE.find_totals, MODULE.footprint

    def begin(*args):
        attempts.clear()
        return find(*args)

    def footprint(*args):
        attempts.append(measure(*args))
        return 1 << 60 if 1 < len(attempts) <= rejected + 1 else attempts[-1]

    monkeypatch.setattr(MODULE, "find_totals", begin)
    monkeypatch.setattr(MODULE, "footprint", footprint)
    monkeypatch.setattr(MODULE, "in_arena", lambda instructions: 1 << 60)
    got, program = steps(seeded(seed))
    with without():
        want, plain = steps(seeded(seed))
    close(got, want)
    assert memory.check_overlaps(program.instructions, program.kept) == []
    if rejected == 3:
        assert program.disassemble() == plain.disassemble()
    if rejected == 0:
        monkeypatch.undo()
        _, at_once = steps(seeded(seed))
        assert program.disassemble() == at_once.disassemble()


class Language(chainer.Chain):
    """Large enough that what is put together must not cost memory."""

    def __init__(self, cell, per_step):
        super().__init__()
        self.per_step = per_step
        with self.init_scope():
            self.embed = L.EmbedID(500, 32)
            self.cells = chainer.ChainList(CELLS[cell](32, 32), CELLS[cell](32, 32))
            self.out = L.Linear(32, 500)

    def forward(self, words):
        for cell in self.cells:
            cell.reset_state()
        loss, ys = 0, []
        for t in range(len(words) - 1):
            y = self.out(self.cells[1](self.cells[0](self.embed(words[t]))))
            if self.per_step:
                loss += F.softmax_cross_entropy(y, words[t + 1])
            ys.append(y)
        if self.per_step:
            return loss
        return F.softmax_cross_entropy(F.concat(ys, axis=0), words[1:].reshape(-1))


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_memory_and_products_of_a_language_model(cell, per_step):
    n_steps, found = 8, {}

    def sentences(step):
        return (np.random.default_rng(step).integers(0, 500, (n_steps + 1, 16)).astype("i"),)

    for disabled in ("", "recurrent"):
        np.random.seed(1)
        with chainer.using_config("sdbr_disabled_passes", disabled):
            found[disabled] = steps(Language(cell, per_step), sentences, 3)
    (got, program), (want, plain) = found.values()
    close(got, want)
    assert program.arena_bytes <= 1.06 * plain.arena_bytes
    # Per layer an input product, what goes backward through it and its gradient no longer depend
    # on the number of steps; nor does what the output layer does.
    per_layer = 3 * 3
    assert len(products(program)) <= len(products(plain)) - per_layer * (n_steps - 1)
    # Only the last state of a layer is copied: it lies in memory that is handed out.
    copies = [sum(i.op.name == "copy" for i in p.instructions) for p in (program, plain)]
    assert copies[0] - copies[1] <= 10


class Sequences(chainer.Chain):
    """A link over a list of sequences, and the last state of its last layer."""

    def __init__(self, name):
        super().__init__()
        with self.init_scope():
            self.rnn = getattr(L, name)(2, UNITS, UNITS, 0.0)
            self.out = L.Linear(UNITS, WORDS)
        self.n_states = 2 if "LSTM" in name else 1

    def forward(self, x, labels):
        states = self.rnn(*[None] * self.n_states, list(x))[0]
        return F.softmax_cross_entropy(self.out(states[-1]), labels)


@pytest.mark.parametrize("name", ["NStepLSTM", "NStepGRU", "NStepBiRNNTanh"])
def test_weights_of_sequences_are_stacked_once(name):
    """However many steps there are; it is so without the passes."""
    passes = {"common_subexpressions", "recurrent"}
    found = []
    for n_steps in (2, 6):

        def batch(step, n=n_steps):
            rng = np.random.default_rng(step)
            return rng.standard_normal((3, n, UNITS)), rng.integers(0, WORDS, 3).astype("i")

        with chainer.using_config("sdbr_disabled_passes", passes):
            np.random.seed(0)
            _, program = steps(Sequences(name), batch)
        copies = [i for i in program.instructions if i.op.name == "copy" and "Stack" in i.label]
        copies += [i for i in program.instructions if "Concat" in i.label and i.ins[0].ndim == 2]
        weights = [i for i in copies if i.ins[0].shape[0] in (UNITS, 4 * UNITS, 3 * UNITS)]
        found.append(len(weights))
    assert found[0] == found[1]
