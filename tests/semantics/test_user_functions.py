"""Row 18: functions that users write, new-style nodes and old-style functions, in replays."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer.utils import type_check

from tests.harness.comparison import BACKENDS, assert_all_near, copy_of, gradients_of
from tests.harness.models import Net, floats
from tests.harness.steps import updated
from tests.tolerances import SUMS

pytestmark = pytest.mark.filterwarnings("ignore:retain_after_backward")

BATCHES = [floats(5, 4)(np.random.RandomState(i)) for i in range(8)]


class Retaining(chainer.FunctionNode):
    """exp(x * y): retains an input and the output, goes back through functions of Variables."""

    def check_type_forward(self, in_types):
        type_check.expect(in_types.size() == 2, in_types[0].dtype.kind == "f")

    def forward(self, inputs):
        self.retain_inputs((1,))
        self.retain_outputs((0,))
        return (np.exp(inputs[0] * inputs[1]),)

    def backward(self, indexes, grads):
        (y,) = self.get_retained_inputs()
        (z,) = self.get_retained_outputs()
        grads = [grads[0] * z * y, None]
        if 1 in indexes:
            grads[1] = chainer.Variable(np.zeros_like(y.array))
        return tuple(grads[i] for i in indexes)


class RawBackward(chainer.FunctionNode):
    """x ** 3 with raw arrays in backward."""

    def forward(self, inputs):
        (x,) = inputs
        self.retain_inputs((0,))
        self.retain_outputs((0,))
        return (x**3,)

    def backward(self, indexes, grads):
        (x,) = self.get_retained_inputs()
        assert self.get_retained_outputs()[0].array.shape == x.shape
        return (chainer.Variable(3 * x.array**2 * grads[0].array),)


class Labelled(chainer.FunctionNode):
    label = "times seven"

    def forward(self, inputs):
        return (inputs[0] * 7,)

    def backward(self, indexes, grads):
        return (7 * grads[0],)


class WithArray(chainer.FunctionNode):
    """Multiplies by an array on the node, which gets no gradient."""

    def __init__(self, weight):
        self.weight = weight
        self.more = {"weights": [weight]}

    def forward(self, inputs):
        return (inputs[0] * self.weight,)

    def backward(self, indexes, grads):
        return (grads[0] * self.more["weights"][0],)


class WithState(chainer.FunctionNode):
    """Leaves a mask, a number and a list on the node."""

    def __init__(self):
        self.seen = []

    def forward(self, inputs):
        (x,) = inputs
        self.mask = x > x.mean()
        self.scale = float(np.abs(x).sum())
        self.seen.append(self.scale)
        assert len(self.seen) == 1  # a fresh node in every run
        return (x * self.mask / self.scale,)

    def backward(self, indexes, grads):
        return (grads[0] * self.mask.astype("f") / self.scale,)


class Drawing(chainer.FunctionNode):
    """Draws in forward, and the draw is needed in backward."""

    def forward(self, inputs):
        self.noise = np.random.standard_normal(inputs[0].shape).astype("f")
        return (inputs[0] * self.noise,)

    def backward(self, indexes, grads):
        return (grads[0] * self.noise,)


class Parts(chainer.FunctionNode):
    """Several outputs, one of them integers; gradients of some outputs may be missing."""

    def forward(self, inputs):
        (x,) = inputs
        self.retain_inputs((0,))
        return np.sin(x), np.argmax(x, axis=1).astype("i"), x.sum(axis=0), np.float32(2) * x

    def backward(self, indexes, grads):
        (x,) = self.get_retained_inputs()
        a, chosen, b, c = grads
        assert chosen is None
        total = None
        for g in (
            None if a is None else a * F.cos(x),
            None if b is None else F.broadcast_to(b, x.shape),
            None if c is None else 2 * c,
        ):
            if g is not None:
                total = g if total is None else total + g
        return (total,)


class NoGradient(chainer.FunctionNode):
    """The sum of two; the second never gets a gradient."""

    def forward(self, inputs):
        return (inputs[0] + inputs[1],)

    def backward(self, indexes, grads):
        return grads[0], None


class Accumulating(chainer.FunctionNode):
    """Adds to present gradients itself."""

    def forward(self, inputs):
        return (inputs[0] * 5,)

    def backward(self, indexes, grads):
        return (5 * grads[0],)

    def backward_accumulate(self, indexes, grads, present):
        (g,) = self.backward(indexes, grads)
        return (g if present[0] is None else g + present[0],)


class Old(chainer.Function):
    """x * y + mask of x, the old way."""

    def __init__(self, factor):
        self.factor = factor

    def check_type_forward(self, in_types):
        type_check.expect(in_types.size() == 2, in_types[0].shape == in_types[1].shape)

    def forward(self, inputs):
        x, y = inputs
        self.mask = x > 0
        return (self.factor * x * y + self.mask,)

    def backward(self, inputs, grads):
        x, y = inputs
        return self.factor * grads[0] * y, self.factor * grads[0] * x


class OldRetaining(chainer.Function):
    """tanh by its output; inputs are not retained."""

    def forward(self, inputs):
        self.retain_inputs(())
        self.retain_outputs((0,), retain_after_backward=True)
        return np.tanh(inputs[0]), np.sign(inputs[0]).astype("i")

    def backward(self, inputs, grads):
        assert inputs[0] is None
        y = self.output_data[0]
        return (grads[0] * (1 - y * y),)


class OldWithoutGradient(chainer.Function):
    def forward(self, inputs):
        return (inputs[0] * 2 + inputs[1],)

    def backward(self, inputs, grads):
        return grads[0] * 2, None


def apply(function, *inputs):
    return function.apply(inputs)[0]


def parts(self, x):
    a, chosen, b, c = Parts().apply((self.l(x),))
    return F.sum(a) + F.sum(b**2), chosen, c


def attribute(which):
    def forward(self, x):
        weight = {
            "constant": lambda: np.arange(3, dtype="f"),
            "parameter": lambda: self.l.b.array + 1,
            "persistent": lambda: self.scale,
            "argument": lambda: x.array[:, :3],
            "result": lambda: F.exp(self.l(x)).array,
        }[which]()
        return apply(WithArray(weight), self.l(x))

    return forward


FUNCTIONS = {
    "retaining": lambda self, x: apply(Retaining(), self.l(x), F.tanh(self.l(x))),
    "raw backward": lambda self, x: apply(RawBackward(), self.l(x)),
    "labelled": lambda self, x: apply(Labelled(), self.l(x)),
    "state": lambda self, x: apply(WithState(), self.l(x)),
    "drawing": lambda self, x: apply(Drawing(), F.dropout(apply(Drawing(), self.l(x)), 0.3)),
    "parts": parts,
    "no gradient": lambda self, x: apply(NoGradient(), self.l(x), self.m(x)),
    "accumulating": lambda self, x: apply(Accumulating(), self.l(x)) * self.l(x),
    "old": lambda self, x: Old(3.0)(self.l(x), self.m(x)),
    "old twice": lambda self, x: Old(2.0)(Old(3.0)(self.l(x), self.m(x)), self.l(x)),
    "old retaining": lambda self, x: OldRetaining()(self.l(x))[0],
    "old without gradient": lambda self, x: OldWithoutGradient()(self.l(x), self.m(x)),
    **{
        f"array: {which}": attribute(which)
        for which in ("constant", "parameter", "persistent", "argument", "result")
    },
}


def make(forward):
    def build():
        np.random.seed(0)
        model = Net(forward, l=L.Linear(4, 3), m=L.Linear(4, 3))
        model.add_persistent("scale", np.ones(3, "f"))
        return model

    return build


def iteration(model, i) -> dict:
    """One call and its backward; everything that it leaves."""
    np.random.seed(i)
    model.scale[...] = i + 1
    x = chainer.Variable(BATCHES[i])
    result = model(x)
    results = result if isinstance(result, tuple) else (result,)
    model.cleargrads()
    loss = sum(F.sum(y * (k + 1)) for k, y in enumerate(results) if y.dtype.kind == "f")
    loss.backward()
    record = {str(k): copy_of(y.array) for k, y in enumerate(results)}
    return {**record, "x": copy_of(x.grad), **gradients_of(model), "random": np.random.rand(1)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_replays_equal_define_by_run(name, backend):
    build = make(FUNCTIONS[name])
    plain, static = build(), sdbr.static_graph(build(), backend=backend, on_dynamic="raise")
    for i in range(6):
        assert_all_near(iteration(static, i), iteration(plain, i), SUMS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    assert statistics.traces <= 2 and statistics.replays == 6 - statistics.traces


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["retaining", "state", "drawing", "old", "parts"])
def test_partial_patterns(name, backend):
    """Subsets of outputs and inputs, in any order, through one call."""
    build = make(FUNCTIONS[name])
    plain, static = build(), sdbr.static_graph(build(), backend=backend)
    for i in range(4):
        found = []
        for model in (plain, static):
            np.random.seed(i)
            x = chainer.Variable(BATCHES[i])
            result = model(x)
            ys = [y for y in (result if isinstance(result, tuple) else (result,)) if y.requires_grad
                  and y.dtype.kind == "f"]  # fmt: skip
            record = {}
            for k, y in enumerate([*ys, *ys[::-1]]):
                for wanted in ([x], [model.l.W, model.l.b], [model.l.b, x]):
                    grads = chainer.grad([y], wanted)
                    for n, g in enumerate(grads):
                        record[f"{k} {len(wanted)} {n}"] = None if g is None else copy_of(g.array)
            found.append(record)
        assert_all_near(found[1], found[0], SUMS, f"iteration {i}")
    assert static.schedule_manager.statistics.replays >= 2


def test_labels_are_shown():
    static = sdbr.static_graph(make(FUNCTIONS["labelled"])())
    for x in BATCHES[:3]:
        static(x)
    assert "times seven" in str(sdbr.explain(static))
    assert "times seven" in static.static_schedule.programs["forward"].disassemble()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", ["forward", "backward"])
def test_static_code_inside_a_function_runs_every_time(place, backend):
    seen = []

    @sdbr.static_code
    def note(inputs, outputs):
        seen.append(float(inputs[0].sum()))
        outputs[0][...] = inputs[0] * 3

    class Noted(chainer.FunctionNode):
        def forward(self, inputs):
            y = np.empty_like(inputs[0])
            if place == "forward":
                note(inputs=[inputs[0]], outputs=[y])
            else:
                y[...] = inputs[0] * 3
            return (y,)

        def backward(self, indexes, grads):
            if place == "forward":
                return (grads[0] * 3,)
            g = np.empty_like(grads[0].array)
            note(inputs=[grads[0].array], outputs=[g])
            return (chainer.Variable(g),)

    build = make(lambda self, x: apply(Noted(), self.l(x)))
    counts = []
    for static in (False, True):
        model = build()
        if static:
            model = sdbr.static_graph(model, backend=backend, on_dynamic="raise")
        seen.clear()
        records = [iteration(model, i) for i in range(4)]
        counts.append((list(seen), records))
    (want_seen, want), (got_seen, got) = counts
    assert len(got_seen) == 4
    np.testing.assert_allclose(got_seen, want_seen, rtol=SUMS)
    for g, w in zip(got, want, strict=True):
        assert_all_near(g, w, SUMS, "iteration")
    assert model.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("name", ["retaining", "state", "drawing", "parts", "array: result"])
def test_second_derivatives(name):
    build = make(FUNCTIONS[name])
    plain = build()
    static = sdbr.static_graph(build(), enable_double_backprop=True, on_dynamic="raise")
    for i in range(4):
        found = []
        for model in (plain, static):
            np.random.seed(i)
            x = chainer.Variable(BATCHES[i])
            result = model(x)
            y = result[0] if isinstance(result, tuple) else result
            (g,) = chainer.grad([F.sum(y)], [x], enable_double_backprop=True)
            model.cleargrads()
            F.sum(g * g).backward()
            found.append({"x": copy_of(x.grad), **gradients_of(model)})
        assert_all_near(found[1], found[0], SUMS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.second_backwards == statistics.replays == 4 - statistics.traces


@pytest.mark.parametrize("whole", [False, True])
def test_updates_with_user_functions(whole):
    """A parameter that gets no gradient is left alone; optimizers see what define-by-run gives."""
    build = make(lambda self, x: F.sum(apply(NoGradient(), self.l(x), self.m(x)) ** 2))
    found = []
    for static in (False, True):
        model, optimizer = build(), chainer.optimizers.Adam()
        if static:
            model = sdbr.static_graph(model, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        for x in BATCHES[:6]:
            updated(optimizer, model, whole, x)
        found.append({n: p.array for n, p in sorted(model.namedparams())})
    assert_all_near(found[1], found[0], SUMS, "parameters")


# Chainer has no second derivatives of old-style functions.
INSIDE = [(n, double) for n in FUNCTIONS for double in (False, True) if not (double and "old" in n)]


@pytest.mark.parametrize(("name", "double"), INSIDE)
def test_gradients_inside_the_call(name, double):
    def forward(self, x):
        result = FUNCTIONS[name](self, x)
        ys = [
            y for y in (result if isinstance(result, tuple) else (result,)) if y.dtype.kind == "f"
        ]
        wanted = [x, self.l.W, self.m.W]
        grads = chainer.grad([F.sum(y * y) for y in ys], wanted, enable_double_backprop=double)
        return (*ys, *[g for g in grads if g is not None])

    build = make(forward)
    plain, static = build(), sdbr.static_graph(build())
    for i in range(5):
        assert_all_near(iteration(static, i), iteration(plain, i), SUMS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    if name == "accumulating":
        assert "backward_accumulate" in static.static_schedule.dynamic[0]
    else:
        assert statistics.define_by_run_calls == 0 and statistics.replays >= 3


def test_a_node_that_is_applied_again():
    """One object for all calls; its gradients are those of its last forward."""
    function = Retaining()

    def f(x, y):
        return function.apply((x, y))[0]

    static = sdbr.static_graph(f, enable_double_backprop=True, on_dynamic="raise")
    for i in range(5):
        found = []
        for call in (f, static):
            x, y = chainer.Variable(BATCHES[i]), chainer.Variable(BATCHES[i + 1])
            (g,) = chainer.grad([F.sum(call(x, y))], [x], enable_double_backprop=True)
            F.sum(g * g).backward()
            found.append({"g": copy_of(g.array), "x": copy_of(x.grad), "y": copy_of(y.grad)})
        assert_all_near(found[1], found[0], SUMS, f"iteration {i}")
    assert static.schedule_manager.statistics.replays == 4


class Broadcast(chainer.FunctionNode):
    def forward(self, inputs):
        return tuple(np.broadcast_arrays(*inputs))

    def backward(self, indexes, gys):
        return tuple(F.sum_to(gy, x.shape) for gy, x in zip(gys, self.inputs, strict=True))


@pytest.mark.filterwarnings("error")
def test_what_numpy_has_broadcast_is_asked_without_a_warning():
    """NumPy warns whoever reads the flag `writeable` of it; define-by-run does not."""
    static = sdbr.static_graph(lambda x, y: Broadcast().apply((x, y)), on_dynamic="raise")
    for i in range(4):
        rng = np.random.RandomState(i)
        x, y = (chainer.Variable(rng.randn(*shape).astype("f")) for shape in ((3, 1), (1, 4)))
        a, b = static(x, y)
        np.testing.assert_array_equal(a.array + b.array, x.array + y.array)
        (F.sum(a * 2) + F.sum(b * 3)).backward()
        np.testing.assert_array_equal(x.grad, np.full((3, 1), 8, "f"))
        np.testing.assert_array_equal(y.grad, np.full((1, 4), 9, "f"))
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("kept", ["list", "array"])
def test_what_a_forward_leaves_in_a_variable_around_it(kept):
    """It is told from what lay there, without a method of the arrays of the call."""

    def function(x):
        h = x.array * 2
        around = [h] if kept == "list" else h

        class Node(chainer.FunctionNode):
            def forward(self, inputs):
                nonlocal around
                around = [inputs[0]] if kept == "list" else np.maximum(inputs[0], 0)
                return (inputs[0] * 2,)

        y = Node().apply((x,))[0]
        return y * (around[0] if kept == "list" else around)

    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(4):
        x = np.full((2, 3), i - 2, "f")
        want = function(chainer.Variable(x)).array
        np.testing.assert_array_equal(static(chainer.Variable(x)).array, want)
    reason = "a result of Node was left in the variable 'around'"
    assert list(static.schedule_manager.define_by_run_reasons) == [reason]
