"""Footguns: what may surprise, each with a sentence and with what happens.

A surprise is either an error or a warning that says what to do, or an outcome that
a page of ``docs`` documents. Everything else here is what define-by-run gives as well.
"""

from __future__ import annotations

import copy
import functools
import gc
import os
import pickle
import queue
import time
import warnings
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.threads import in_threads
from tests.tolerances import RESULTS, ROUNDINGS, SUMS

X = np.random.RandomState(0).randn(5, 4).astype("f")
T = np.array([0, 1, 2, 0, 1], "i")


class MLP(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8)
            self.l2 = L.Linear(8, 3)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))


def classifier(**options):
    np.random.seed(0)
    return sdbr.static_graph(L.Classifier(MLP()), **options)


def counts(static):
    s = static.schedule_manager.statistics
    return s.traces, s.replays, s.define_by_run_calls


def assert_close(got, want):
    np.testing.assert_allclose(
        getattr(got, "array", got), getattr(want, "array", want), SUMS, ROUNDINGS
    )


@pytest.fixture  # of warnings
def caught():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def messages(caught) -> str:
    return "\n".join(str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning))


# --- values that leave the call ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("leave", "what"),
    [
        (lambda h: float(f"{float(h.array.sum()):.2f}"), "float"),
        (lambda h: hash(h.array.sum().item()) % 7, "item"),
        (lambda h: np.repeat(h.array, 30).tolist()[0], "tolist"),
        (lambda h: {float(h.array[h.array > 0].sum()): 3.0}.popitem()[1], "float"),
        (lambda h: 2.0 + str(max(h.array[0, 0], h.array[0, 1]).item()).count("9"), "item"),
    ],
)
def test_a_number_taken_out_of_an_array(leave, what, caught):
    """A text or key made of data is of one call only: one warning with the line, then Chainer.

    (Frozen into the schedule it would be silently wrong.)
    """
    plain = lambda x: F.relu(x) * leave(F.relu(x))  # noqa: E731
    static = sdbr.static_graph(plain)
    for k in range(4):
        assert_close(static(X + k), plain(X + k))
    text = messages(caught)
    assert text.count("is not static") == 1 and what in text and "test_footguns.py" in text
    assert "F.where" in text and "static_code" in text
    assert counts(static) == (1, 0, 3)
    raising = sdbr.static_graph(plain, on_dynamic="raise")
    for _ in range(2):
        with pytest.raises(sdbr.NotStaticError, match=r"test_footguns\.py"):
            raising(X)


@pytest.mark.parametrize(
    "leave",
    [
        lambda h: int(h.array.argmax()),
        lambda h: 1.0 if h.array.max() > 6 else 2.0,
        lambda h: float(len(np.nonzero(h.array > 4)[0])),
        lambda h: h.array[h.array > 4].sum() if (h.array > 4).any() else 1.0,
    ],
)
def test_a_number_that_decides(leave, caught):
    """It is asked anew in each replay; another answer takes another way."""
    plain = lambda x: F.relu(x) * leave(F.relu(x))  # noqa: E731
    static = sdbr.static_graph(plain, on_dynamic="raise")
    for k in (0, 1, 2, 3, 1, 0, 2):
        assert_close(static(X + k), plain(X + k))
    assert not messages(caught)
    traces, replays, define_by_run = counts(static)
    assert traces + replays == 7 and replays >= 3 and define_by_run == 0


def test_an_array_written_in_place(caught):
    """``y[...] = 0`` in a result that goes backward is dynamic; ``numpy.where`` makes another."""

    def writes(x):
        y = F.relu(x).array
        y[y > 1] = 1
        return chainer.Variable(y) * 2

    def selects(x):
        y = F.relu(x).array
        return chainer.Variable(np.where(y > 1, np.float32(1), y)) * 2

    static, mended = sdbr.static_graph(writes), sdbr.static_graph(selects)
    for k in range(4):
        x = chainer.Variable(X + k)
        assert_close(static(x), writes(x))
        assert_close(mended(x), selects(x))
    assert "written in place" in messages(caught)
    assert counts(static) == (1, 0, 3) and counts(mended) == (1, 3, 0)


def test_a_counter_in_the_forward(caught):
    """``self.n += 1`` in the call: replays count as well, on from what others set."""

    class Counting(chainer.Chain):
        n = 0

        def forward(self, x):
            self.n += 1
            return F.relu(x)

    static = sdbr.static_graph(Counting())
    for k in range(4):
        static(X)
        assert static.n == k + 1
    assert static.schedule_manager.statistics.replays == 2
    static.n = 7
    static(X)
    assert static.n == 8 and not messages(caught)


def test_advice_goes_by_what_happened(caught):
    """Names that the user gave do not decide what a warning advises."""

    class Seeded(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.random_state = self.history_of_dtype = 0

        def forward(self, x):
            self.random_state = int(f"{self.random_state}1")
            return F.relu(x)

    class Named(Seeded):
        def forward(self, x):
            self.history_of_dtype = self.history_of_dtype + 1
            return F.relu(x * len(str(self.history_of_dtype)))

    for chain in (Seeded(), Named()):
        static = sdbr.static_graph(chain)
        static(X)
        text = messages(caught)
        assert "is not static" in text and "Pass numbers that change as arguments" in text
        assert "numpy.random" not in text and "before or after the static call" not in text
        (schedule,) = sdbr.explain(static).to_dict()["managers"][0]["schedules"]
        assert schedule["dynamic"]["remedy"].startswith("Pass numbers that change as arguments")


@pytest.mark.parametrize(
    "thing", [iter(range(100)), queue.SimpleQueue()], ids=["iterator", "queue"]
)
def test_advice_for_what_gives_something_else_each_time(thing, caught):
    """What it gives comes in as an argument, wherever it lies."""

    class Holding(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.source = thing

        def forward(self, x):
            return F.relu(x) if self.source is not None else x

    sdbr.static_graph(Holding())(X)
    assert "is not static" in messages(caught)
    assert "Pass what it gives as an argument" in messages(caught)


def test_a_counter_in_static_code():
    """The same counter in ``static_code`` counts every call, and the call is replayed."""

    class Counting(chainer.Chain):
        n = 0

        @sdbr.static_code
        def count(self):
            self.n += 1

        def forward(self, x):
            self.count()
            return F.relu(x)

    static = sdbr.static_graph(Counting())
    for k in range(4):
        static(X)
        assert static.n == k + 1
    assert counts(static) == (1, 3, 0)


def test_reporting_a_python_number(caught):
    """``report({'loss': float(loss.array)})`` reports each call's number; its text is dynamic."""
    as_float = sdbr.static_graph(lambda x: chainer.report({"s": float(F.sum(x).array)}) or F.sum(x))
    as_text = sdbr.static_graph(
        lambda x: chainer.report({"s": float(f"{float(F.sum(x).array)}")}) or F.sum(x)
    )
    as_variable = sdbr.static_graph(lambda x: chainer.report({"s": F.sum(x)}) or F.sum(x))
    for static, expected in ((as_float, (1, 3, 0)), (as_text, (1, 0, 3)), (as_variable, (1, 3, 0))):
        for k in range(4):
            reporter = chainer.Reporter()
            seen: dict = {}
            with reporter.scope(seen):
                static(X + k)
            assert_close(seen["s"], (X + k).sum())
        assert counts(static) == expected
    assert "left NumPy" in messages(caught)


# --- Python that runs while the call is traced, and only then ------------------------------------
def test_print_in_the_forward(capsys, caught):
    """A replay would not print: the call runs define-by-run, and that is said."""

    def talking(x):
        print("called")
        return F.relu(x)

    static = sdbr.static_graph(talking)
    for _ in range(4):
        static(X)
    assert capsys.readouterr().out.count("called") == 4
    assert "print(...) would run only while the call is traced" in messages(caught)
    assert counts(static)[1] == 0


def test_a_list_that_the_forward_fills(caught):
    """A list that the call itself fills is another one in every call: right, traced, and said."""
    seen: list = []

    def appending(x):
        seen.append(1)
        return F.relu(x)

    static = sdbr.static_graph(appending)
    for _ in range(8):
        static(X)
    assert len(seen) == 8 and counts(static)[1] == 0
    assert "'seen'" in messages(caught) and "static_code" in messages(caught)


def test_an_object_that_the_forward_changes(caught):
    """The same holds for attributes of objects that are no links, but for numbers: those count."""

    class Log:
        lines = 0

    log = Log()

    def logging(x):
        log.lines += 1
        return F.relu(x)

    static = sdbr.static_graph(logging)
    for _ in range(8):
        static(X)
    assert log.lines == 8 and counts(static)[1] == 6 and not messages(caught)


def test_what_is_read_from_the_environment(monkeypatch):
    """Environment variables that the call reads are compared before every replay."""
    monkeypatch.setenv("FOOTGUN_SCALE", "1")
    static = sdbr.static_graph(lambda x: F.relu(x) * float(os.environ["FOOTGUN_SCALE"]))
    for _ in range(3):
        static(X)
    traced, replays = counts(static)[:2]
    assert replays
    monkeypatch.setenv("FOOTGUN_SCALE", "2")
    assert_close(static(X), 2 * np.maximum(X, 0))
    assert counts(static)[0] == traced + 1


def test_what_is_read_from_a_file(caught, tmp_path):
    """A file is read in every call, which is dynamic."""
    path = tmp_path / "scale"
    path.write_text("1")
    static = sdbr.static_graph(lambda x: F.relu(x) * float(path.read_text()))
    static(X)
    path.write_text("3")
    assert_close(static(X), 3 * np.maximum(X, 0))
    assert "open(...)" in messages(caught)


def test_the_time_in_the_forward(caught):
    """``time.time()`` and its kind are dynamic: pass the time as an argument."""
    start = time.perf_counter()
    static = sdbr.static_graph(lambda x: F.relu(x) * (time.perf_counter() - start))
    assert static(X).array.max() < static(X).array.max() < static(X).array.max()
    assert "time.perf_counter was called" in messages(caught)


def test_an_iterator_in_the_forward(caught):
    """``next(iterator)`` is dynamic: it would give what it gave in the traced call."""
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    static = sdbr.static_graph(lambda x: F.relu(x) * next(numbers))
    for k in range(4):
        assert_close(static(X), np.maximum(X, 0) * (k + 1))
    assert "numbers, an iterator, which goes on from call to call" in messages(caught)


def test_a_generator_object_of_ones_own(caught):
    """Draws of a RandomState of one's own are not recorded, and dynamic."""
    generator = np.random.RandomState(7)
    static = sdbr.static_graph(lambda x: F.relu(x) + generator.rand(5, 4).astype("f"))
    want = np.random.RandomState(7)
    for _ in range(5):
        assert_close(static(X), np.maximum(X, 0) + want.rand(5, 4).astype("f"))
    assert counts(static)[1] == 0


def test_draws_of_numpy_global_generator():
    """Draws of ``numpy.random`` are recorded: every replay draws anew, in the same stream."""
    f = lambda x: F.dropout(x) + np.random.uniform(size=(5, 4)).astype("f")  # noqa: E731
    static = sdbr.static_graph(f)
    np.random.seed(3)
    got = [static(X).array.copy() for _ in range(4)]
    np.random.seed(3)
    for y in got:
        assert_close(y, f(X))
    assert counts(static) == (1, 3, 0)


def test_a_number_outside_that_changes():
    """Globals and variables of enclosing functions are looked at before each replay."""
    scale = 2.0
    static = sdbr.static_graph(lambda x: F.relu(x) * scale)
    for scale in (2.0, 2.0, 3.0, 3.0, 2.0):
        assert_close(static(X), np.maximum(X, 0) * scale)
    assert counts(static)[1] >= 2


def test_a_number_attribute_that_changes():
    """A number on the chain may change between calls: the result follows."""

    class Scaled(chainer.Chain):
        scale = 1.0

        def forward(self, x):
            return F.relu(x) * self.scale

    static = sdbr.static_graph(Scaled())
    for scale in (1.0, 1.0, 0.5, 0.25, 0.25):
        static.scale = scale
        assert_close(static(X), np.maximum(X, 0) * scale)


def test_a_list_attribute_that_changes_in_place():
    """Numbers in a list attribute are compared, so a changed list is noticed."""

    class Powers(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.powers = [1, 2]

        def forward(self, x):
            return sum(x**p for p in self.powers) + F.sum(x)

    static = sdbr.static_graph(Powers())
    for k in range(6):
        if k == 3:
            static.powers.append(3)
        assert_close(static(X), sum(X**p for p in static.powers) + X.sum())


def test_functions_defined_anew():
    """Functions and methods that are defined anew, as in a notebook, are seen at the next call."""

    class Child(chainer.Link):
        def forward(self, x):
            return x * 2

    class Base(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.child = Child()

        def activate(self, x):
            return F.relu(x)

        def forward(self, x):
            return helper(self.child(self.activate(x)))

    class Derived(Base):
        pass

    def helper(x):
        return x + 1

    plain, static = Derived(), sdbr.static_graph(Derived())

    def check():
        for _ in range(3):
            assert_close(static(X), plain(X))

    check()
    Child.forward = lambda self, x: x * 5
    check()
    Base.activate = lambda self, x: F.tanh(x)
    check()
    Derived.activate = lambda self, x: F.sigmoid(x)
    check()

    helper = lambda x: x - 1  # noqa: E731, F811
    check()
    Derived.forward = lambda self, x: F.exp(self.activate(x))
    check()
    for model in (plain, static):
        model.activate = lambda x: F.softplus(x)
    check()
    assert counts(static)[1] >= 14
    for model in (plain, static):
        model.forward = lambda x: x * 100
    check()  # one of its own, that is not decorated


def test_functions_of_chainer_replaced(monkeypatch):
    """A function of ``chainer.functions`` that is replaced after the trace is seen."""
    static = sdbr.static_graph(lambda x: F.relu(x) * 2)
    for _ in range(3):
        assert_close(static(X), 2 * np.maximum(X, 0))
    with monkeypatch.context() as patched:
        patched.setattr(F, "relu", F.tanh)
        for _ in range(2):
            assert_close(static(X), 2 * np.tanh(X))
    assert_close(static(X), 2 * np.maximum(X, 0))
    assert counts(static) == (2, 4, 0)


# --- arguments -----------------------------------------------------------------------------------
def test_objects_as_arguments():
    """With one that is no array, number, string or container of these calls are define-by-run."""
    static = sdbr.static_graph(lambda x, thing=None: F.relu(x))
    with pytest.warns(sdbr.SdbrWarning, match=r"argument 'thing' .*object"):
        static(X, thing=object())
    static(X)
    with pytest.raises(sdbr.TraceError, match=r"argument 'thing' .*object"):
        sdbr.static_graph(lambda x, thing: F.relu(x), on_dynamic="raise")(X, thing=object())


def test_a_new_lambda_in_every_call(caught):
    """A function is compared by identity: a new lambda in every call is a new key each time."""
    static = sdbr.static_graph(lambda x, f: f(x))
    for _ in range(8):
        assert_close(static(X, lambda x: F.relu(x)), np.maximum(X, 0))
    assert "keeps changing: argument 1" in messages(caught)


def test_one_batch_size_after_another(caught):
    """Every new shape is traced; when keys keep changing a warning names the part and advises."""
    static = sdbr.static_graph(lambda x: F.relu(x))
    for n in range(1, 9):
        assert_close(static(np.ones((n, 4), "f")), np.ones((n, 4)))
    text = messages(caught)
    assert "argument 0: float32[" in text and "Pad batches" in text


def test_going_back_to_a_shape():
    """The last, smaller batch of an epoch is traced once, not once per epoch."""
    static = sdbr.static_graph(lambda x: F.relu(x))
    for _ in range(4):
        for n in (5, 5, 2):
            static(X[:n])
    assert counts(static) == (2, 10, 0)


def test_true_is_not_one():
    """Equal arguments of different types are different keys: True, 1 and 1.0."""
    static = sdbr.static_graph(lambda x, n: x * n if n is True else x + n)
    for n in (1, True, 1.0, 1, True, 1.0):
        assert_close(static(chainer.Variable(X), n), X if n is True else X + 1)


def test_nan_as_an_argument():
    """NaN equals itself in the key: it does not make every call a new one."""
    static = sdbr.static_graph(lambda x, fill: F.where(x.array > 0, x, np.full_like(X, fill)))
    for _ in range(4):
        y = static(chainer.Variable(X), float("nan"))
        np.testing.assert_array_equal(np.isnan(y.array), X <= 0)
    assert counts(static)[0] <= 2


def test_the_same_array_twice():
    """Which arguments are one object is part of the key; both uses give their gradient."""
    static = sdbr.static_graph(lambda a, b: F.sum(a * b))
    for _ in range(3):
        a, b = chainer.Variable(X), chainer.Variable(X + 1)
        static(a, b).backward()
        assert_close(a.grad, X + 1)
        a = chainer.Variable(X)
        static(a, a).backward()
        assert_close(a.grad, 2 * X)


def test_an_argument_changed_before_the_backward():
    """As in define-by-run the backward sees what the array holds then."""
    for function in (lambda x: F.sum(x * x), sdbr.static_graph(lambda x: F.sum(x * x))):
        for _ in range(3):
            x = chainer.Variable(X.copy())
            y = function(x)
            x.array[...] = 3
            y.backward()
            assert_close(x.grad, np.full_like(X, 6))


def test_an_integer_batch():
    """An integer array needs a gradient from nobody; embedding takes it as it is."""
    embed = L.EmbedID(10, 3)
    static = sdbr.static_graph(lambda i: F.sum(embed(i)))
    for _ in range(3):
        embed.cleargrads()
        static(T).backward()
        assert_close(embed.W.grad.sum(), 15)


def test_masked_arrays_and_matrices(caught):
    """Subclasses of ndarray change what operators mean: such calls run define-by-run, said once."""
    static = sdbr.static_graph(lambda x: F.relu(x))
    for _ in range(3):
        static(np.ma.masked_array(X, X > 0))
    assert messages(caught).count("MaskedArray") == 1
    assert counts(static) == (0, 0, 3)


# --- what is handed out --------------------------------------------------------------------------
def test_outputs_are_not_overwritten():
    """An output or gradient that somebody holds never changes under them."""
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    kept = []
    for k in range(5):
        optimizer.update(model, X + k, T)
        held = [model.loss, model.y.array, model.predictor.l1.W.grad]
        kept.append([(h, np.array(getattr(h, "array", h))) for h in held])
    for held in kept:
        for thing, contents in held:
            np.testing.assert_array_equal(getattr(thing, "array", thing), contents)


def test_an_attribute_keeps_its_variable():
    """``model.loss`` may be the same Variable object as before, with the new value in it.

    (Nobody else held it; a Variable that one holds stays as it was.)
    """
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    losses = []
    for _ in range(4):
        optimizer.update(model, X, T)
        losses.append(float(model.loss.array))
    assert losses == sorted(losses, reverse=True) and len(set(losses)) == 4
    held = model.loss
    optimizer.update(model, X, T)
    assert held is not model.loss and float(held.array) == losses[-1]


def test_a_returned_dictionary_is_new_each_time():
    """Writing to a returned container changes nothing of the next call."""
    static = sdbr.static_graph(lambda x: {"y": F.relu(x), "list": [1]})
    for _ in range(4):
        result = static(X)
        assert sorted(result) == ["list", "y"] and result["list"] == [1]
        result["z"] = 1
        result["list"].append(2)


def test_the_graph_of_a_call_is_one_node():
    """Between result and parameters lies one node, named static_graph; gradients pass as usual."""
    model = classifier()
    for _ in range(3):
        loss = model(X, T)
    assert loss.creator.label == "static_graph"
    (gradient,) = chainer.grad([loss], [model.predictor.l1.W])
    assert gradient.shape == (8, 4)


def test_one_result_with_respect_to_another():
    """As if the functions of the call were in the graph one by one."""
    features = sdbr.static_graph(lambda x: F.tanh(x))
    both = sdbr.static_graph(lambda x: (lambda h: (F.sum(h * h), h))(F.tanh(x)))
    head = sdbr.static_graph(lambda h: F.sum(h * h))
    for _ in range(3):
        x = chainer.Variable(X)
        y, h = both(x)
        first = chainer.grad([y], [x, h])
        h = features(x)
        second = chainer.grad([head(h)], [x, h])
        for got, want in zip(first, second, strict=True):
            np.testing.assert_allclose(got.array, want.array, rtol=RESULTS)
        np.testing.assert_allclose(first[1].array, 2 * h.array, rtol=RESULTS)
    assert both.schedule_manager.statistics.replays == 2


# --- backward ------------------------------------------------------------------------------------
def test_backward_after_a_whole_step():
    """The activations of a step are used up: a backward through its loss says so."""
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    for _ in range(3):
        optimizer.update(model, X, T)
    with pytest.raises(sdbr.StaleGraphError, match="call the loss function itself"):
        model.loss.backward()
    optimizer.update(model, X, T)


def test_backward_after_end_forward():
    """``end_forward`` is not needed; after it, and another call, the old activations are gone."""
    model = classifier()
    for _ in range(3):
        first = model(X, T)
        model.schedule_manager.end_forward()
        later = [model(X, T) for _ in range(4)]
        later[0].backward()
        del later
    with pytest.raises(sdbr.StaleGraphError, match=r"activations of call \d+ .* taken by call \d+"):
        first.backward()
    # Without it every live call keeps its activations.
    first = model(X, T)
    model(X, T).backward()
    first.backward()


def test_two_backwards_through_one_call():
    """Two losses may share one call, and accumulate, as in define-by-run."""
    plain, static = MLP(), None
    static = sdbr.static_graph(copy.deepcopy(plain))
    for _ in range(3):
        for model in (plain, static):
            model.cleargrads()
            y = model(X)
            F.sum(y).backward(retain_grad=True)
            F.sum(y * y).backward()
        assert_close(static.l1.W.grad, plain.l1.W.grad)


def test_second_derivatives_need_the_switch():
    """A second derivative without ``enable_double_backprop=True`` is an error that names it."""
    static = sdbr.static_graph(lambda x: F.sum(F.tanh(x)))
    static(chainer.Variable(X))
    x = chainer.Variable(X)
    (g,) = chainer.grad([static(x)], [x], enable_double_backprop=True)
    with pytest.raises(sdbr.SdbrError, match="enable_double_backprop=True"):
        F.sum(g * g).backward()


def test_backward_from_what_is_no_scalar():
    """``y.backward()`` of an array needs ``y.grad``; a replay says so."""
    static = sdbr.static_graph(lambda x: F.tanh(x))
    for _ in range(2):
        static(chainer.Variable(X))
    with pytest.raises(AttributeError, match=r"set y\.grad before"):
        static(chainer.Variable(X)).backward()


# --- parameters and optimizers -------------------------------------------------------------------
def test_a_parameter_replaced_or_frozen():
    """New arrays, ``disable_update``, ``load_npz`` and the like are seen at the next call."""
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    for k in range(6):
        if k == 3:
            model.predictor.l1.disable_update()
            before = model.predictor.l1.W.array.copy()
            model.predictor.l2.W.array = np.zeros_like(model.predictor.l2.W.array)
        optimizer.update(model, X, T)
    np.testing.assert_array_equal(model.predictor.l1.W.array, before)
    assert_close(model.predictor.l2.W.array.sum(axis=0), np.zeros(8))  # of softmax gradients


def test_a_read_only_parameter():
    """It is refused before anything is updated; Chainer updates those before it first."""
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    for _ in range(3):
        optimizer.update(model, X, T)
    model.predictor.l2.W.array.flags.writeable = False
    before = {n: p.array.copy() for n, p in model.namedparams()}
    with pytest.raises(ValueError, match=r"/predictor/l2/W .*read-only"):
        optimizer.update(model, X, T)
    for n, p in model.namedparams():
        np.testing.assert_array_equal(p.array, before[n])
    model.predictor.l2.W.array.flags.writeable = True
    optimizer.update(model, X, T)


def test_hyperparameters_between_steps():
    """They are read at every step; nothing is traced or built anew."""
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    for _ in range(3):
        optimizer.update(model, X, T)
    optimizer.lr = 0.0
    before = model.predictor.l1.W.array.copy()
    optimizer.update(model, X, T)
    np.testing.assert_array_equal(model.predictor.l1.W.array, before)
    assert model.schedule_manager.statistics.steps == 3


def test_a_lambda_as_loss_function():
    """``optimizer.update(lambda: model(x, t))`` is no whole step; forward and backward replay."""
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    for _ in range(4):
        optimizer.update(lambda: model(X, T))
    statistics = model.schedule_manager.statistics
    assert (statistics.replays, statistics.steps) == (3, 0)


def test_a_python_hook_of_the_optimizer():
    """It runs every time, between native calls, and ``explain`` names it."""
    calls = []
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    optimizer.add_hook(lambda o: calls.append(1), "mine", timing="pre")
    for _ in range(4):
        optimizer.update(model, X, T)
    assert len(calls) == 4
    assert "Chainer:" in str(sdbr.explain(optimizer))


def test_labels_out_of_range():
    """IndexError with the op and the line; the step has changed nothing."""
    model = classifier()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    for _ in range(3):
        optimizer.update(model, X, T)
    before = model.predictor.l1.W.array.copy()
    with pytest.raises(IndexError, match="softmax_cross_entropy") as caught:
        optimizer.update(model, X, T + 2)
    assert "step, op " in str(caught.value) and "int32[5]" in str(caught.value).replace("5,1", "5")
    np.testing.assert_array_equal(model.predictor.l1.W.array, before)
    assert optimizer.t == 3


# --- decorating ----------------------------------------------------------------------------------
def test_wrapping_changes_the_object_itself():
    """``static_graph(model)`` returns the very object; its class is a subclass of what it was."""
    plain = MLP()
    static = sdbr.static_graph(plain)
    assert static is plain and isinstance(static, MLP)
    assert type(static) is not MLP and type(static).__name__ == "MLP"


def test_copies_start_without_schedules():
    """copy, deepcopy and pickle give static links that have traced nothing yet."""
    model = sdbr.static_graph(MLP())
    for _ in range(3):
        model(X)
    for other in (model.copy(), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.schedule_manager.statistics.calls == 0
        assert_close(other(X), model(X))
        other(X)
        assert counts(other) == (1, 1, 0)


def test_the_outermost_static_chain_wins():
    """A static chain inside another is traced into it; its own manager stays empty."""

    class Outer(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.inner = sdbr.static_graph(MLP())

        @sdbr.static_graph
        def forward(self, x):
            return self.inner(x) * 2

    outer = Outer()
    for _ in range(3):
        outer(X)
    assert counts(outer) == (1, 2, 0) and counts(outer.inner) == (0, 0, 0)


def test_two_static_methods():
    """Each method has a manager of its own; ``schedule_manager`` is that of ``forward``."""

    class Two(MLP):
        @sdbr.static_graph
        def forward(self, x):
            return super().forward(x)

        @sdbr.static_graph
        def score(self, x):
            return F.softmax(self.forward(x))

    two = Two()
    for _ in range(3):
        two.score(X)
    assert two.schedule_manager.statistics.calls == 0
    (manager,) = sdbr.explain(two.score).to_dict()["managers"]
    assert manager["statistics"]["replays"] == 2


def test_a_model_goes_when_its_last_reference_goes():
    """Schedules do not keep their model alive."""
    model = classifier()
    for _ in range(3):
        model(X, T).backward()
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


# --- modes ---------------------------------------------------------------------------------------
def test_hooks_see_what_they_always_saw():
    """While a function hook is active the call runs define-by-run: it sees every function."""
    static = sdbr.static_graph(lambda x: F.tanh(F.relu(x)))
    for _ in range(3):
        static(X)
    hook = chainer.function_hooks.TimerHook()
    with hook, pytest.warns(sdbr.SdbrWarning, match=r"a function hook is active; .* define-by-run"):
        static(X)
    assert [name for name, _ in hook.call_history] == ["ReLU", "Tanh"]
    static(X)
    with hook, warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        static(X)
    assert counts(static) == (1, 3, 2)


def test_debug_mode_finds_nan():
    """``chainer.set_debug(True)`` makes calls run define-by-run, with all of Chainer's checks."""
    static = sdbr.static_graph(lambda x: F.log(x))
    with np.errstate(invalid="ignore"):
        static(X)
    for _ in range(2):
        assert np.isnan(static(X).array).any()  # no error and, in a replay, no NumPy warning
    with chainer.using_config("debug", True), pytest.raises(RuntimeError, match="NaN"):
        static(X)


def test_numpy_warnings():
    """Native ops do not warn of overflow or division by zero; results are those of NumPy."""
    static = sdbr.static_graph(lambda x: F.exp(x) / (x - x))
    with np.errstate(all="ignore"):
        want = static(chainer.Variable(X * 100)).array
    static(chainer.Variable(X * 100))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        np.testing.assert_array_equal(static(chainer.Variable(X * 100)).array, want)


def test_entries_of_the_configuration_of_ones_own():
    """Every entry of ``chainer.config`` is part of the key, those of users, too."""

    def f(x):
        return F.relu(x) * chainer.config.my_scale

    static = sdbr.static_graph(f)
    for scale in (1.0, 1.0, 2.0, 2.0, 1.0):
        with chainer.using_config("my_scale", scale):
            assert_close(static(X), f(X))
    assert counts(static)[1] >= 2


def test_evaluation_has_a_schedule_of_its_own():
    """Train and test mode are two keys; going back and forth traces nothing anew."""
    model = sdbr.static_graph(lambda x: F.dropout(x))
    for _ in range(3):
        model(X)
        with chainer.using_config("train", False):
            np.testing.assert_array_equal(model(X).array, X)
    assert counts(model) == (2, 4, 0)


def test_switched_off():
    """``use_static_graph = False`` gives plain Chainer, hooks, prints and all."""
    model = classifier()
    with chainer.using_config("use_static_graph", False):
        for _ in range(3):
            model(X, T)
    assert counts(model) == (0, 0, 3)
    assert "use_static_graph is False" in str(sdbr.explain(model))


def test_a_backend_that_is_not_there():
    """It is an error that names those that are; never silently another one."""
    with (
        chainer.using_config("sdbr_backend", "cuda"),
        pytest.raises(sdbr.BackendError, match=r"available: .*cython.*numpy"),
    ):
        classifier()(X, T)


def test_threads_have_a_configuration_of_their_own():
    """``using_config`` holds for one thread: another one trains while this one evaluates."""
    static = sdbr.static_graph(lambda x: F.dropout(x, 0.5))
    results = {}

    def work(train):
        with chainer.using_config("train", train):
            results[train] = [static(X).array for _ in range(3)]

    in_threads(2, lambda i: work(i == 0))
    assert all(np.array_equal(y, X) for y in results[False])
    assert not any(np.array_equal(y, X) for y in results[True])


# --- static_code ---------------------------------------------------------------------------------
def test_numbers_for_static_code(monkeypatch):
    """What is passed to ``static_code`` besides arrays is as new as in define-by-run."""
    seen = []

    @sdbr.static_code
    def note(inputs, when):
        seen.append((float(inputs[0].sum()), when))

    def f(x):
        note(inputs=[x], when=os.environ["FOOTGUN_STEP"])
        return F.relu(x)

    static = sdbr.static_graph(f)
    for k in range(5):
        monkeypatch.setenv("FOOTGUN_STEP", str(k))
        static(X + k)
    assert [s for s, _ in seen] == pytest.approx(
        [float((X + k).sum()) for k in range(5)], rel=RESULTS
    )
    assert [when for _, when in seen] == list("01234")


def test_no_gradient_through_static_code():
    """Results of ``static_code`` have no history: the gradient stops there."""

    @sdbr.static_code
    def double(inputs):
        return (inputs[0] * 2,)

    static = sdbr.static_graph(lambda x: F.sum(x * double(inputs=[x.array])[0]))
    for _ in range(3):
        x = chainer.Variable(X)
        static(x).backward()
        assert_close(x.grad, 2 * X)  # of x * (2 x) with the factor held fixed


def test_an_array_of_python_lists():
    """An array of numbers is a constant, since the numbers are looked at before each replay."""
    table = [[1.0, 2.0], [3.0, 4.0]]
    static = sdbr.static_graph(lambda x: x[:2, :2] * np.array(table, "f"))
    for _ in range(4):
        assert_close(static(chainer.Variable(X)), X[:2, :2] * np.array(table, "f"))
    assert counts(static) == (1, 3, 0)
    table[1][0] = 5.0
    assert_close(static(chainer.Variable(X)), X[:2, :2] * np.array(table, "f"))


def test_functools_partial_and_bound_methods():
    """They can be decorated; each is a function of its own."""
    static = sdbr.static_graph(functools.partial(F.leaky_relu, slope=0.1))
    for _ in range(3):
        assert_close(static(X), np.where(X > 0, X, 0.1 * X))
    assert counts(static) == (1, 2, 0)
