"""Row 6: gradients through static calls, in every form that Chainer offers."""

from __future__ import annotations

import sdbr
from sdbr.base.errors import SdbrError

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net, Siamese, Tied, floats
from tests.harness.twins import POINTS, SIX, X, both, mlp, pair
from tests.tolerances import GRADIENTS, RESULTS, SUMS

BATCHES = [floats(5, 4)(np.random.RandomState(i)) for i in range(12)]


def two_outputs(self, x):
    h = self.l(x)
    return F.tanh(h), F.sum(F.relu(h) ** 2, axis=1)


def network():
    return Net(two_outputs, l=L.Linear(4, 3))


def compare(plain, static, iteration, times=4) -> None:
    """``iteration(model, i)`` leaves the same with both; all but the first call are replays."""
    for i in range(times):
        want = iteration(plain, i)
        assert_all_near(iteration(static, i), want, SUMS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    assert statistics.traces == 1 and statistics.replays >= times - 1


def arrays(grads) -> dict:
    return {str(k): None if g is None else copy_of(g.array) for k, g in enumerate(grads)}


def seeds(ys, i):
    """A gradient for each of `ys`."""
    rng = np.random.RandomState(100 + i)
    return [chainer.Variable(rng.randn(*y.shape).astype(y.dtype)) for y in ys]


# --- chainer.grad --------------------------------------------------------------------------------
GRAD_FORMS = {
    "seeded": lambda a, b, x, m, i: chainer.grad([a, b], [x, m.l.W, m.l.b], seeds([a, b], i)),
    "one seeded": lambda a, b, x, m, i: chainer.grad([a, b], [x], [*seeds([a], i), None]),
    "one output": lambda a, b, x, m, i: chainer.grad([b], [m.l.b, x]),
    "tuples": lambda a, b, x, m, i: chainer.grad((b, a), (x,)),
    "input twice": lambda a, b, x, m, i: chainer.grad([b], [x, x, m.l.W, x]),
    "unrelated": lambda a, b, x, m, i: chainer.grad([b], [chainer.Variable(BATCHES[0]), x]),
    "itself": lambda a, b, x, m, i: chainer.grad([a, b], [a, x], seeds([a, b], i)),
    "grad inputs": lambda a, b, x, m, i: chainer.grad(
        [a], [x, m.l.W], seeds([a], i), grad_inputs=[*seeds([x], 2 * i), None]
    ),
    "loss scale": lambda a, b, x, m, i: chainer.grad([b], [x, m.l.W], loss_scale=8.0),
    "set": lambda a, b, x, m, i: chainer.grad([b], [x, m.l.W], set_grad=True),
    "retained": lambda a, b, x, m, i: chainer.grad(
        [F.sum(a * 2) + F.sum(b)], [x, m.l.W], retain_grad=True
    ),
    "later functions": lambda a, b, x, m, i: chainer.grad(
        [F.sum(F.exp(a) * F.expand_dims(b, 1))], [a, b, x, m.l.b]
    ),
    "double": lambda a, b, x, m, i: chainer.grad([b], [x, m.l.W], enable_double_backprop=True),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", GRAD_FORMS)
@pytest.mark.parametrize("double", [False, True])
def test_grad(form, double, backend):
    def iteration(model, i):
        x = chainer.Variable(BATCHES[i])
        a, b = model(x)
        model.cleargrads()
        record = arrays(GRAD_FORMS[form](a, b, x, model, i))
        for name, v in {"a": a, "b": b, "x": x, "W": model.l.W, "bias": model.l.b}.items():
            record[name] = copy_of(v.grad)
        return record

    compare(*pair(network, backend=backend, enable_double_backprop=double), iteration)


@pytest.mark.parametrize("backend", BACKENDS)
def test_grad_through_several_calls(backend):
    """Calls in a row and side by side, plain functions between them."""

    def iteration(model, i):
        x = chainer.Variable(BATCHES[i])
        a, b = model(x)
        c, d = model(F.concat([a, F.expand_dims(b, 1)]) * 0.5)
        e, f = model(x * 2)
        total = F.sum(c * e) + F.sum(d + f * b)
        return arrays(chainer.grad([total, c], [x, a, b, model.l.W, model.l.b, f]))

    compare(*pair(network, backend=backend), iteration)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "seed",
    [np.zeros((5, 4), "f"), np.zeros((5, 2), "f"), np.zeros((4, 3), "f"), np.zeros(3, "f")],
    ids=["wider", "narrower", "fewer", "vector"],
)
def test_gradients_of_another_shape_are_refused(seed, backend):
    """As ``y.grad = ...`` and a backward in define-by-run refuse them; nothing is written."""
    _, static = pair(network, backend=backend)
    for i in range(3):
        x = chainer.Variable(BATCHES[i])
        a, _ = static(x)
        with pytest.raises(ValueError, match="Shape"):
            a.grad = seed
        if i:
            with pytest.raises(sdbr.SdbrError, match=r"gradient of output 0.*\[5, 3\]"):
                chainer.grad([a], [x], [chainer.Variable(seed)])
        chainer.grad([a], [x], [chainer.Variable(np.ones_like(a.array))])
    assert static.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_another_dtype(backend):
    """``y.grad = ...`` refuses them; ``chainer.grad`` says what it expected."""
    _, static = pair(network, backend=backend)
    for i in range(3):
        x = chainer.Variable(BATCHES[i])
        a, _ = static(x)
        with pytest.raises(TypeError, match="Dtype"):
            a.grad = np.ones((5, 3), "d")
        if i:
            with pytest.raises(sdbr.SdbrError, match=r"gradient of output 0.*float32.*float64"):
                chainer.grad([a], [x], [chainer.Variable(np.ones((5, 3), "d"))])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", ["F", "strided", "broadcast"])
def test_gradients_of_any_layout(layout, backend):
    def seed(array):
        if layout == "F":
            return np.asfortranarray(array)
        if layout == "strided":
            return np.repeat(array, 2, axis=0)[::2]
        return np.broadcast_to(array[:1], array.shape)

    def iteration(model, i):
        x = chainer.Variable(BATCHES[i])
        a, _ = model(x)
        return arrays(
            chainer.grad([a], [x, model.l.W], [chainer.Variable(seed(BATCHES[i][:, :3]))])
        )

    compare(*pair(network, backend=backend), iteration)


# --- backward --------------------------------------------------------------------------------
def backwards(model, i, how):
    x = chainer.Variable(BATCHES[i])
    a, b = model(x)
    model.cleargrads()
    how(model, x, a, b, i)
    return {"x": copy_of(x.grad), "a": copy_of(a.grad), "b": copy_of(b.grad), **gradients_of(model)}


def set_and_go(model, x, a, b, i):
    a.grad = BATCHES[i][:, :3].copy()
    a.backward()


def set_as_variable(model, x, a, b, i):
    a.grad_var = chainer.Variable(BATCHES[i][:, :3])
    a.backward(retain_grad=True)


def twice(model, x, a, b, i):
    loss = F.sum(b)
    loss.backward()
    loss.backward()


def twice_with_clear(model, x, a, b, i):
    loss = F.sum(b)
    loss.backward()
    model.cleargrads()
    x.cleargrad()
    loss.backward()


def both_outputs(model, x, a, b, i):
    F.sum(a).backward()
    F.sum(b * b).backward(retain_grad=True)


def over_calls(model, x, a, b, i):
    for k in range(3):
        F.sum(model(x * k)[1]).backward()


def at_once(model, x, a, b, i):
    a.grad, b.grad = BATCHES[i][:, :3].copy(), BATCHES[i][:, 0].copy()
    chainer.backward([a, b])


def given_at_once(model, x, a, b, i):
    chainer.backward([a, b], seeds([a, b], i))


def scaled(model, x, a, b, i):
    F.sum(b).backward(loss_scale=4.0)


def unchained(model, x, a, b, i):
    c, _ = model(F.concat([a, x[:, :1]]))
    a.unchain()
    F.sum(c).backward()


def unchained_backward(model, x, a, b, i):
    c, d = model(F.concat([a, x[:, :1]]))
    F.sum(d).backward()
    c.unchain_backward()
    F.sum(c * a).backward()


def no_graph_of_input(model, x, a, b, i):
    c, _ = model(chainer.Variable(x.array, requires_grad=False))
    F.sum(c).backward()


def frozen(model, x, a, b, i):
    model.l.b.requires_grad  # noqa: B018
    c, _ = model(x.array)
    F.sum(c).backward()


def in_no_backprop_mode(model, x, a, b, i):
    with chainer.no_backprop_mode():
        F.sum(model(x)[0])
        with chainer.force_backprop_mode():
            loss = F.sum(model(x)[1])
    loss.backward()


def backward_in_no_backprop_mode(model, x, a, b, i):
    loss = F.sum(b)
    with chainer.no_backprop_mode():
        loss.backward()


def lazily(model, x, a, b, i):
    with chainer.using_config("lazy_grad_sum", True):
        c, d = model(x)
        (F.sum(c * c) + F.sum(d) + F.sum(c)).backward()


def accumulated(model, x, a, b, i):
    model.l.W.grad = np.full((3, 4), 2, "f")
    x.grad = np.ones((5, 4), "f")
    F.sum(b).backward()


def added(model, x, a, b, i):
    F.sum(b).backward()
    model.addgrads(model)


BACKWARDS = (
    set_and_go, set_as_variable, twice, twice_with_clear, both_outputs, over_calls, at_once,
    given_at_once, scaled, unchained, unchained_backward, no_graph_of_input, frozen,
    in_no_backprop_mode, backward_in_no_backprop_mode, lazily, accumulated, added,
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("how", BACKWARDS)
def test_backward(how, double, backend):
    plain, static = pair(network, backend=backend, enable_double_backprop=double)
    for i in range(4):
        want = backwards(plain, i, how)
        assert_all_near(backwards(static, i, how), want, SUMS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    assert statistics.replays >= 3 and statistics.traces <= 3


def test_backward_of_no_scalar_without_a_gradient():
    """In define-by-run some function fails with a None; the call stays usable."""
    plain, static = pair(network)
    for i in range(3):
        with pytest.raises(TypeError):
            plain(chainer.Variable(BATCHES[i]))[0].backward()
        x = chainer.Variable(BATCHES[i])
        a, b = static(x)
        if i:
            with pytest.raises(sdbr.SdbrError, match=r"set y\.grad"):
                a.backward()
        F.sum(b).backward()
        assert x.grad is not None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [Siamese, Tied, MLP])
def test_shared_parameters_and_calls(cls, backend):
    """One parameter in several places of a call and in several calls of a backward."""
    makes = {Siamese: (Siamese, 5), Tied: (Tied, 4), MLP: (lambda: MLP(4, 6, 4), 4)}
    make, n = makes[cls]

    def iteration(model, i):
        xs = [chainer.Variable(floats(5, n)(np.random.RandomState(10 * i + k))) for k in range(3)]
        model.cleargrads()
        if cls is Siamese:
            loss = F.sum(model(xs[0], xs[1])) + F.sum(model(xs[1], xs[2]) ** 2)
        else:
            loss = F.sum(model(model(xs[0]) + xs[1]) * model(xs[2]))
        loss.backward()
        return {**{str(k): copy_of(x.grad) for k, x in enumerate(xs)}, **gradients_of(model)}

    plain, static = pair(make, backend=backend)
    for i in range(4):
        want = iteration(plain, i)
        assert_all_near(iteration(static, i), want, SUMS, f"iteration {i}")
    assert static.schedule_manager.statistics.replays >= 5


# --- inside the call -------------------------------------------------------------------------
INSIDE = {
    "backward": (lambda x, y: F.sum(y).backward(), "backward.. inside the call"),
    "chainer.backward": (
        lambda x, y: chainer.backward([y], [chainer.Variable(np.ones_like(y.array))]),
        "backward.. inside the call",
    ),
    "read": (lambda x, y: x.grad, "gradient of a Variable was read"),
    "read as Variable": (lambda x, y: y.grad_var, "gradient of a Variable was read"),
    "written": (lambda x, y: setattr(x, "grad", x.array * 0), "gradient of a Variable was written"),
    "cleared": (lambda x, y: x.cleargrad(), "gradient of a Variable was written"),
    "set": (
        lambda x, y: chainer.grad([y], [x], set_grad=True),
        "gradient of a Variable was written",
    ),
    "retained": (
        lambda x, y: chainer.grad([F.exp(y)], [x], retain_grad=True),
        "gradient of a Variable was written",
    ),
}


@pytest.mark.parametrize("name", INSIDE)
def test_gradients_inside_the_call_that_stay_dynamic(name):
    """The error names the line and what to use; without it the results are define-by-run's."""
    act, message = INSIDE[name]

    def forward(self, x):
        y = F.tanh(self.l(x))
        act(x, y)
        return y

    def make():
        return Net(forward, l=L.Linear(4, 3))

    with pytest.raises(sdbr.NotStaticError, match=f"{message}.*test_gradients.py.*\\. (Call|Use)"):
        sdbr.static_graph(make(), on_dynamic="raise")(chainer.Variable(BATCHES[0]))
    np.random.seed(0)
    plain = make()
    np.random.seed(0)
    static = sdbr.static_graph(make())
    for i in range(4):
        found = []
        for model in (plain, static):
            x = chainer.Variable(BATCHES[i])
            model.cleargrads()
            if model is static and not i:
                with pytest.warns(sdbr.SdbrWarning, match=message):
                    y = model(x)
            else:
                y = model(x)
            F.sum(y * y).backward()
            found.append({"y": copy_of(y.array), "x": copy_of(x.grad), **gradients_of(model)})
        assert_all_near(found[1], found[0], SUMS, f"iteration {i}")


def test_the_history_of_an_argument_cut_inside_the_call():
    def forward(self, x):
        h = self.l(x)
        x.unchain()
        return h * x

    def make():
        return Net(forward, l=L.Linear(4, 4))

    np.random.seed(0)
    plain = make()
    np.random.seed(0)
    static = sdbr.static_graph(make())
    for i in range(4):
        found = []
        for model in (plain, static):
            start = chainer.Variable(BATCHES[i])
            x = start * 2
            model.cleargrads()
            F.sum(model(x)).backward()
            found.append({"start": copy_of(start.grad), **gradients_of(model)})
        assert found[0]["start"] is None
        assert_all_near(found[1], found[0], SUMS, f"iteration {i}")
    with pytest.raises(sdbr.NotStaticError, match="history of an argument"):
        sdbr.static_graph(make(), on_dynamic="raise")(chainer.Variable(BATCHES[0]) * 2)


def test_a_gradient_through_what_ran_before_the_call():
    def f(x, start):
        return chainer.grad([F.sum(F.tanh(x))], [start])[0]

    static = sdbr.static_graph(f)
    for i in range(3):
        start = chainer.Variable(BATCHES[i])
        want = f(start * 2, start)
        if i:
            got = static(start * 2, start)
        else:
            with pytest.warns(sdbr.SdbrWarning, match="ran before the call"):
                got = static(start * 2, start)
        assert_all_near({"g": got.array}, {"g": want.array}, RESULTS, "gradient")


def square_of(h):
    return F.sum(h * h), h


@pytest.mark.parametrize("array", [np.ones((2, 5), "f"), np.ones((2, 3)), None])
def test_a_result_that_gets_an_array_of_another_kind(array):
    static = sdbr.static_graph(lambda x: square_of(F.exp(x)), on_dynamic="raise")
    for _ in range(3):
        z, y = static(chainer.Variable(np.ones((2, 3), "f")))
    y.array = array
    with pytest.raises(SdbrError, match=r"output 1 of .* was float32\[2, 3\] in the forward"):
        z.backward()


def test_a_result_that_no_backward_reads_may_get_any_array():
    static = sdbr.static_graph(lambda x: (lambda y: (F.sum(y), y))(x * 3), on_dynamic="raise")
    for i in range(3):
        x = chainer.Variable(np.ones((2, 3), "f"))
        z, y = static(x)
        if i == 0:
            continue  # that is Chainer's own
        y.array = None
        z.backward()
        assert (x.grad == 3).all()


def test_only_results_that_a_backward_reads_are_followed():
    static = sdbr.static_graph(lambda x: (x * 3, F.exp(x), F.sum(x)), on_dynamic="raise")
    for _ in range(2):
        static(chainer.Variable(np.ones((2, 3), "f")))
    plan = static.schedule_manager.static_schedule.forward
    assert [place for place in plan.followed if place is not None] == [1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_of_another_shape_before_the_backward(backend):
    static = sdbr.static_graph(lambda x: F.sum(x * x), backend=backend, on_dynamic="raise")
    for k in range(4):
        x = chainer.Variable(POINTS)
        y = static(x)
        if k == 2:
            x.array = POINTS[:2]
            with pytest.raises((sdbr.SdbrError, ValueError), match=r"shape|size"):
                y.backward()
            continue
        y.backward()
        assert_near(x.grad, 2 * POINTS, RESULTS, "gradient")
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_do_not_fit(backend):
    """As in define-by-run a gradient of another shape or dtype is refused where it is set."""
    static = sdbr.static_graph(lambda x: F.tanh(x), backend=backend, on_dynamic="raise")
    for k in range(4):
        x = chainer.Variable(POINTS)
        y = static(x)
        for wrong in (np.ones((2, 2), "f"), np.ones_like(POINTS, dtype="d"), "ones"):
            with pytest.raises((ValueError, TypeError)):
                y.grad = wrong
        if k == 2:
            with pytest.raises(sdbr.SdbrError, match=r"set y\.grad before"):
                y.backward()
            continue
        y.grad = np.broadcast_to(np.float32(2), POINTS.shape)
        y.backward()
        assert_near(x.grad, 2 * (1 - np.tanh(POINTS) ** 2), GRADIENTS, "gradient")


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_accumulate_over_calls(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        if i != 2:
            model.cleargrads()  # in iteration 2 they pile up
        for x in SIX:
            F.sum(model(x) ** 2).backward()
        return gradients_of(model)

    both(plain, static, iteration)


@pytest.mark.parametrize("backend", BACKENDS)
def test_zerograds_and_loss_scale(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        for p in model.params():
            p.grad = np.zeros_like(p.array)
        F.sum(model(X) ** 2).backward(loss_scale=4.0)
        return gradients_of(model)

    both(plain, static, iteration)


@pytest.mark.parametrize("backend", BACKENDS)
def test_grad_of_any_subset(backend):
    def forward(self, x, y):
        a = self.l(x)
        return {"a": F.tanh(a), "b": F.sum(a * y, axis=1), "c": F.exp(y)}

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 4)), backend=backend)

    def iteration(model, i):
        x, y = chainer.Variable(SIX[i]), chainer.Variable(SIX[i + 1])
        out = model(x, y)
        result = {}
        wanted = {"x": x, "y": y, "W": model.l.W, "b": model.l.b}
        for names in (["a"], ["b"], ["c"], ["a", "c"], ["a", "b", "c"]):
            seeds = [
                chainer.Variable(np.full_like(out[n].array, k + 0.5)) for k, n in enumerate(names)
            ]
            grads = chainer.grad(
                [out[n] for n in names], list(wanted.values()), seeds, set_grad=False
            )
            for key, g in zip(wanted, grads, strict=True):
                result[f"{names}{key}"] = copy_of(None if g is None else g.array)
        return result

    both(plain, static, iteration)
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_retain_grad(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        y = model(SIX[i])
        z = y * 2
        model.cleargrads()
        F.sum(z * z).backward(retain_grad=True)
        return {"y": copy_of(y.grad), "z": copy_of(z.grad), **gradients_of(model)}

    both(plain, static, iteration)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "cut",
    [
        lambda h: h.array,
        lambda h: chainer.Variable(h.array),
        lambda h: chainer.as_variable(h.array),
        lambda h: h.data.copy(),
        lambda h: F.identity(chainer.Variable(h.array, requires_grad=False)),
    ],
    ids=["array", "Variable", "as_variable", "copy", "no grad"],
)
def test_gradients_stop_where_the_array_is_taken(cut, backend):
    def forward(self, x):
        return F.mean_squared_error(self.a(x), cut(self.b(x))) + F.sum(cut(self.c.W) * self.c.W)

    plain, static = pair(
        lambda: Net(forward, a=L.Linear(4, 3), b=L.Linear(4, 3), c=L.Linear(2, 2)), backend=backend
    )

    def iteration(model, i):
        model.cleargrads()
        loss = model(SIX[i])
        loss.backward()
        assert model.b.W.grad is None
        return {"loss": copy_of(loss.array), **gradients_of(model)}

    both(plain, static, iteration)
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_plain_distinct_arrays(backend):
    static = sdbr.static_graph(mlp(), backend=backend)
    for _ in range(3):
        static.cleargrads()
        F.sum(static(X)).backward()
    grads = [p.grad for p in static.params()]
    for i, g in enumerate(grads):
        assert type(g) is np.ndarray and g.flags.writeable and g.flags.c_contiguous
        for other in [*grads[:i], *(p.array for p in static.params())]:
            assert not np.shares_memory(g, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_handed_on(backend):
    """What Chainer hands on as it came shares memory, as there; later calls leave it alone."""
    model = Net(
        lambda self, x, y: F.transpose(x + y) + F.transpose(self.l.W), l=L.Linear(4, 5, nobias=True)
    )
    static = sdbr.static_graph(model, backend=backend, on_dynamic="raise")
    kept = []
    for i in range(6):
        x, y = chainer.Variable(BATCHES[i]), chainer.Variable(BATCHES[i + 1])
        z = static(x, y)
        static.cleargrads()
        z.grad = given = BATCHES[i].T.copy()
        z.backward()
        assert np.shares_memory(x.grad, given) and np.shares_memory(x.grad, y.grad)
        assert x.grad.flags.writeable
        if i:
            assert not np.shares_memory(static.l.W.grad, given)
        kept.append((i, x.grad, y.grad, static.l.W.grad))
    for i, *grads in kept:
        for g in grads:
            np.testing.assert_array_equal(g, BATCHES[i])
    assert static.schedule_manager.statistics.replays == 5


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: F.transpose(x) * 2 * F.transpose(y),
        lambda x, y: F.average(x, axis=0) + F.mean(y, axis=0),
        lambda x, y: F.flip((x * y)[None], 1),
        lambda x, y: F.sum(x * 2 + y * 2, axis=1),
    ],
)
def test_gradients_that_are_views(call, backend):
    """Of arrays that the backward makes: laid out as in define-by-run, of each call's own."""
    static = sdbr.static_graph(call, backend=backend, on_dynamic="raise")
    kept = []
    for i in range(6):
        found = []
        for function in (call, static):
            x, y = chainer.Variable(BATCHES[i]), chainer.Variable(BATCHES[i + 1])
            z = function(x, y)
            z.grad = np.random.RandomState(i).randn(*z.shape).astype("f")
            z.backward()
            found.append([x.grad, y.grad])
        for want, got in zip(*found, strict=True):
            assert_near(got, want, RESULTS, f"iteration {i}")
            assert got.flags.writeable >= want.flags.writeable
            assert not any(np.shares_memory(got, old) for _, old in kept)
            kept.append((got.copy(), got))
    for before, g in kept:
        np.testing.assert_array_equal(g, before)
    assert static.schedule_manager.statistics.replays == 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_arguments_that_cannot_be_written(backend):
    """What cannot be written in define-by-run, several places of one number or the caller's."""
    static = sdbr.static_graph(lambda x: (F.sum(x, axis=0), x + 1), backend=backend)
    for _ in range(4):
        x = chainer.Variable(BATCHES[0])
        y, z = static(x)
        y.grad = np.ones(4, "f")
        y.backward()
        assert not x.grad.flags.writeable
        x.cleargrad()
        z.grad = given = np.ones((5, 4), "f")
        given.flags.writeable = False
        z.backward()
        assert not x.grad.flags.writeable
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_set_by_the_user_is_not_written(backend):
    plain, static = pair(mlp, backend=backend)
    mine = []

    def iteration(model, i):
        g = np.full_like(model.l1.W.array, 3)
        model.cleargrads()
        model.l1.W.grad = g
        mine.append(g)
        F.sum(model(SIX[i]) ** 2).backward()
        return gradients_of(model)

    both(plain, static, iteration)
    for g in mine:
        np.testing.assert_array_equal(g, 3)
