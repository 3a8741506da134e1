"""Row 15: second derivatives through static calls, and gradients that a call takes itself."""

from __future__ import annotations

import gc
import re
import warnings
import weakref

import sdbr
from sdbr.call.managers import manager_of

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, state_of
from tests.harness.models import Net, floats
from tests.tolerances import DOUBLE, GRADIENTS, RESULTS, SUMS

BATCHES = [floats(5, 6)(np.random.RandomState(i)) for i in range(24)]


def linear(n_in, n_out):
    # Without bias: behind a normalization its gradient is rounding error and nothing else.
    return L.Linear(n_in, n_out, nobias=True)


def two_layers(middle):
    """A body of two layers with `middle` between them."""
    return lambda self, x: self.b(middle(self, self.a(x)))


def in_images(self, x):
    h = F.leaky_relu(self.conv(F.reshape(x, (5, 1, 2, 3))))
    return self.b(F.max_pooling_2d(h, 2))


def with_numpy(self, x):
    h = self.a(x)
    weight = 1 / (1 + np.abs(h.array))
    return self.b(F.tanh(h * weight))


def in_windows(self, x):
    h = F.reshape(F.tanh(self.a(x)), (-1, 1, 2, 4))
    h = F.max_pooling_2d(h, (1, 2)) + F.average_pooling_2d(h, (1, 2))
    h = F.pad(h, ((0, 0), (0, 0), (0, 0), (1, 1)), "constant", constant_values=0.5)
    return self.b(F.reshape(h[:, :, [1, 0]], (-1, 8)))


def with_cut(self, x):
    h = self.a(x)
    with chainer.no_backprop_mode():
        gate = F.sigmoid(h)
    k = F.tanh(h)
    k.unchain()
    return self.b(F.tanh(h) * gate * k)


def with_draw(self, x):
    noise = np.random.standard_normal((5, 8)).astype("f")
    return self.b(F.tanh(self.a(x)) * noise)


@sdbr.static_code
def doubled(inputs):
    return (2 * inputs[0],)


@sdbr.static_code
def write_half(inputs, outputs):
    outputs[0][...] = inputs[0] / 2


def with_static_code(self, x):
    h = self.a(x)
    (weight,) = doubled(inputs=[h.array])
    half = np.zeros((5, 8), "f")
    write_half(inputs=[h.array], outputs=[half])
    return self.b(F.tanh(h) * weight + F.sigmoid(h) * half)


def recurrent(self, x):
    self.rnn.reset_state()
    return self.b(self.rnn(x) + self.rnn(x * 2))


BODIES = {
    "tanh": (two_layers(lambda _, h: F.tanh(h)), {}),
    "sigmoid": (two_layers(lambda _, h: F.sigmoid(h)), {}),
    "leaky_relu": (two_layers(lambda _, h: F.leaky_relu(h, 0.1)), {}),
    "relu": (two_layers(lambda _, h: F.relu(h)), {}),
    "softplus": (two_layers(lambda _, h: F.softplus(h)), {}),
    "elu": (two_layers(lambda _, h: F.elu(h)), {}),
    "softmax": (two_layers(lambda _, h: F.softmax(h)), {}),
    "log_softmax": (two_layers(lambda _, h: F.log_softmax(h)), {}),
    "arithmetic": (two_layers(lambda _, h: (2 - h) * h / (h**2 + 1.5) - 0.5 * h), {}),
    "exp and log": (two_layers(lambda _, h: F.log(F.exp(h) + F.sqrt(h * h + 1))), {}),
    "shapes": (
        two_layers(
            lambda _, h: F.tanh(F.concat(F.split_axis(
                F.transpose(F.reshape(h, (5, 2, 4)), (0, 2, 1)).reshape(5, 8) ** 2, 2, 1
            )[::-1]))
        ),
        {},
    ),
    "dropout": (two_layers(lambda _, h: F.dropout(F.tanh(h), 0.3)), {}),
    "batch normalization": (
        two_layers(lambda self, h: F.tanh(self.n(h))),
        {"n": lambda: L.BatchNormalization(8)},
    ),
    "layer normalization": (
        two_layers(lambda self, h: F.tanh(self.n(h))),
        {"n": lambda: L.LayerNormalization(8)},
    ),
    "convolution": (in_images, {"conv": lambda: L.Convolution2D(1, 4, 2)}),
    "pooling": (in_windows, {}),
    "NumPy": (with_numpy, {}),
    "cuts": (with_cut, {}),
    "draw": (with_draw, {}),
    "lstm": (recurrent, {"rnn": lambda: L.LSTM(6, 8)}),
}  # fmt: skip
# Bodies whose penalty makes no Python op.
NATIVE = ("tanh", "sigmoid", "leaky_relu", "relu", "dropout", "arithmetic", "pooling")
# Those whose second derivatives are replayed, too; for the others Chainer's code runs.
REPLAYED = (*NATIVE[:4], "arithmetic", "softplus", "elu", "softmax", "log_softmax", "exp and log")
REPLAYED += ("NumPy", "cuts")
# What is not the same in two calls of one iteration, as the penalty inside the call makes none.
OUTSIDE_ONLY = {
    "static_code": (with_static_code, {}),
    "finetuned": (
        two_layers(lambda self, h: F.tanh(self.n(h, finetune=True))),
        {"n": lambda: L.BatchNormalization(8)},
    ),
    "spectral normalization": (
        two_layers(lambda _, h: F.tanh(h)),
        {"a": lambda: linear(6, 8).add_hook(chainer.link_hooks.SpectralNormalization())},
    ),
}


def make(body, links):
    def build():
        np.random.seed(0)
        given = {name: link() for name, link in links.items()}
        n = 4 if "conv" in given else 8
        return Net(body, **{"a": linear(6, 8), "b": linear(n, 1), **given})

    return build


def penalty(model, x, double=True):
    """The critic's loss of WGAN-GP for one batch."""
    y = model(x)
    (g,) = chainer.grad([y], [x], enable_double_backprop=double)
    return F.mean((F.sqrt(F.sum(g * g, axis=1) + 1e-6) - 1) ** 2) + F.mean(y)


def train(model, loss, steps=5, rate=0.1) -> list[dict]:
    """`steps` iterations; what each leaves behind."""
    optimizer = chainer.optimizers.SGD(rate).setup(model)
    np.random.seed(1)
    records = []
    for i in range(steps):
        x = chainer.Variable(BATCHES[i])
        model.cleargrads()
        value = loss(model, x)
        value.backward()
        record = {"loss": copy_of(value.array), "x": copy_of(x.grad)}
        record.update((f"gradient {n}", copy_of(p.grad)) for n, p in sorted(model.namedparams()))
        optimizer.update()
        records.append({**record, **state_of(model), "random": np.random.rand(1)})
    return records


def compare(got: list, want: list) -> None:
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert_all_near(g, w, SUMS, f"iteration {i}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*BODIES, *OUTSIDE_ONLY])
def test_gradient_penalty_of_a_static_chain(name, backend):
    build = make(*{**BODIES, **OUTSIDE_ONLY}[name])
    options = {"backend": backend, "on_dynamic": "raise", "enable_double_backprop": True}
    static = sdbr.static_graph(build(), **options)
    compare(train(static, penalty), train(build(), penalty))
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    traces = statistics.traces
    assert traces <= 2 and statistics.replays == 5 - traces
    assert statistics.second_backwards == statistics.replays
    # The first one is traced.
    replayed = statistics.second_replays >= statistics.second_backwards - 2
    assert replayed == (name in REPLAYED)


def penalised(body):
    """The body as a loss that takes its gradient itself."""

    def forward(self, x):
        y = body(self, x)
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        return F.mean((F.sqrt(F.sum(g * g, axis=1) + 1e-6) - 1) ** 2) + F.mean(y)

    return forward


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BODIES)
def test_gradient_penalty_inside_the_call(name, backend):
    body, links = BODIES[name]
    build = make(penalised(body), links)
    static = sdbr.static_graph(build(), backend=backend, on_dynamic="raise")

    def loss(model, x):
        return model(x)

    compare(train(static, loss), train(build(), loss))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 4)
    assert statistics.define_by_run_calls == 0
    assert not (statistics.python_ops and name in NATIVE)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["leaky_relu", "dropout", "layer normalization"])
def test_penalties_inside_whole_steps(name, backend):
    body, links = BODIES[name]

    def forward(self, x):
        return penalised(body)(self, chainer.Variable(x))

    build = make(forward, links)
    found = []
    for static in (False, True):
        model, optimizer = build(), chainer.optimizers.Adam()
        if static:
            model = sdbr.static_graph(model, backend=backend, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        np.random.seed(1)
        for x in BATCHES[:8]:
            optimizer.update(model, x)
        found.append(state_of(model))
    assert_all_near(found[1], found[0], SUMS, "state")
    assert model.schedule_manager.statistics.steps == 7


class ConvolutionalCritic(chainer.Chain):
    """The loss of a critic with a gradient penalty: convolutions are differentiated twice."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a = L.Convolution2D(2, 4, 3, stride=2, pad=1)
            self.b = L.Deconvolution2D(4, 3, 2)
            self.c = L.ConvolutionND(2, 3, 2, 3, pad=1)

    def forward(self, x):
        x = chainer.Variable(x)
        h = F.tanh(self.a(x))
        y = F.sum(F.tanh(self.c(F.tanh(self.b(h)))))
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        return y + F.sum(g * g)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_gradients_of_convolutions_are_native(backend):
    found = []
    for static in (False, True):
        np.random.seed(0)
        model = ConvolutionalCritic()
        if static:
            model = sdbr.static_graph(model, backend=backend, on_dynamic="raise")
        rng = np.random.RandomState(1)
        for _ in range(4):
            model.cleargrads()
            loss = model(rng.randn(3, 2, 7, 6).astype("f"))
            loss.backward()
        found.append({"loss": loss.array, **{n: p.grad for n, p in model.namedparams()}})
    assert_all_near(found[1], found[0], GRADIENTS, "gradients")
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.python_ops) == (1, 3, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_first_order_gradients_inside_the_call_are_native(backend):
    def forward(self, x):
        h = F.dropout(F.tanh(self.a(x)), 0.2)
        y = F.sum(self.b(h) ** 2)
        gx, gw = chainer.grad([y], [x, self.a.W])
        return y, gx, F.sum(gw * gw), gx.array * 2

    build = make(forward, {})
    plain = build()
    static = sdbr.static_graph(build(), backend=backend, on_dynamic="raise")
    for x in BATCHES[:4]:
        found = []
        for model in (plain, static):
            np.random.seed(3)
            model.cleargrads()
            v = chainer.Variable(x)
            outs = model(v)
            outs[0].backward()
            record = {str(i): copy_of(getattr(y, "array", y)) for i, y in enumerate(outs)}
            found.append({**record, "x": v.grad, "a": model.a.W.grad, "b": model.b.W.grad})
            record["graph"] = np.array([getattr(y, "creator", None) is None for y in outs])
        assert_all_near(found[1], found[0], GRADIENTS, "gradients")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 3)
    assert statistics.python_ops == 0


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_forms_of_grad_inside_the_call(backend, double):
    def f(x, y, seed):
        a = F.tanh(x * y)
        b = F.exp(0.1 * x) + y
        more = {"enable_double_backprop": double}
        one = chainer.grad([a], [x, y], **more)
        seeded = chainer.grad([a, b], [x], [seed, None], **more)
        scaled = chainer.grad([b], [y, x], loss_scale=3.0, **more)
        added = chainer.grad([a], [x], grad_inputs=[seed], **more)
        inner = chainer.grad([F.sum(b)], [a, b, x], **more)
        return [*one, *seeded, *scaled, *added, *inner]

    static = sdbr.static_graph(f, backend=backend, on_dynamic="raise")
    for i in range(4):
        found = []
        for function in (f, static):
            args = [chainer.Variable(BATCHES[i + k]) for k in range(3)]
            outs = function(*args)
            record = {str(k): None if g is None else copy_of(g.array) for k, g in enumerate(outs)}
            if double:
                sum(F.sum(g * g) for g in outs if g is not None).backward()
                record.update((f"grad {k}", copy_of(a.grad)) for k, a in enumerate(args))
            found.append(record)
        assert_all_near(found[1], found[0], SUMS, f"call {i}")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 3)


def hessian_vector(f, x, v, order):
    """The derivative of that order along `v`, by repeated ``chainer.grad``."""
    y = F.sum(f(x))
    for _ in range(order):
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        y = F.sum(g * v)
    return y


@pytest.mark.parametrize("order", [2, 3, 4])
def test_higher_orders(order):
    def f(x):
        return F.exp(F.sin(x)) * F.tanh(x) / (1 + x**2)

    static = sdbr.static_graph(f, enable_double_backprop=True, on_dynamic="raise")
    whole = sdbr.static_graph(lambda x, v: hessian_vector(f, x, v, order), on_dynamic="raise")
    for i in range(3):
        data, v = BATCHES[i].astype("d"), BATCHES[i + 1].astype("d")
        want = hessian_vector(f, chainer.Variable(data), v, order)
        got = hessian_vector(static, chainer.Variable(data), v, order)
        assert_near(got.array, want.array, DOUBLE, "derivative")
        assert_near(whole(chainer.Variable(data), v).array, want.array, DOUBLE, "inside")
    assert static.schedule_manager.statistics.replays == 2
    assert whole.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_differential_equation_as_loss(backend):
    """Second derivatives by the input in the loss, so third ones by the parameters: natively."""

    def forward(self, x):
        x = chainer.Variable(x)
        u = self.c(F.tanh(self.b(F.tanh(self.a(x)))))
        (ux,) = chainer.grad([u], [x], enable_double_backprop=True)
        (uxx,) = chainer.grad([ux], [x], enable_double_backprop=True)
        return F.mean((uxx + u * 4) ** 2) + F.mean((ux - 1) ** 2)

    found = []
    for static in (False, True):
        np.random.seed(0)
        model = Net(forward, a=L.Linear(1, 12), b=L.Linear(12, 12), c=L.Linear(12, 1))
        optimizer = chainer.optimizers.SGD(0.01)
        if static:
            model = sdbr.static_graph(model, backend=backend, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        records = []
        for x in BATCHES[:8]:
            optimizer.update(model, x[:, :1].copy())
            records.append(state_of(model))
        found.append(records)
    for got, want in zip(found[1], found[0], strict=True):
        assert_all_near(got, want, SUMS, "parameters")
    statistics = model.schedule_manager.statistics
    assert (statistics.steps, statistics.python_ops) == (7, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_with_double_backprop(backend):
    """``y.backward(enable_double_backprop=True)``, and gradients of parameters in the penalty."""
    body, links = BODIES["batch normalization"]
    build = make(body, links)
    plain = build()
    static = sdbr.static_graph(build(), backend=backend, enable_double_backprop=True)
    for i in range(4):
        found = []
        for model in (plain, static):
            x = chainer.Variable(BATCHES[i])
            model.cleargrads()
            F.sum(model(x) ** 2).backward(enable_double_backprop=True)
            grads = [x.grad_var, *[p.grad_var for _, p in sorted(model.namedparams())]]
            x.cleargrad()
            model.cleargrads()
            sum(F.sum(g * g) for g in grads).backward()
            found.append({"x": x.grad, **{n: p.grad for n, p in sorted(model.namedparams())}})
        assert_all_near(found[1], found[0], SUMS, f"iteration {i}")
    assert static.schedule_manager.statistics.replays == 3


def test_two_calls_in_one_penalty():
    """Each second derivative is that of its own call, whatever ran since."""
    body, links = BODIES["dropout"]
    build = make(body, links)
    plain, static = build(), sdbr.static_graph(build(), enable_double_backprop=True)
    for i in range(4):
        found = []
        for model in (plain, static):
            np.random.seed(7)
            model.cleargrads()
            xs = [chainer.Variable(BATCHES[i + k]) for k in range(3)]
            ys = [model(x) for x in xs]
            gs = [
                chainer.grad([y], [x], enable_double_backprop=True)[0]
                for x, y in zip(xs, ys, strict=True)
            ]
            model(xs[0])
            np.random.rand(5)
            total = sum(F.sum(g * g) * (k + 1) for k, g in enumerate(gs))
            total.backward()
            found.append({n: p.grad for n, p in sorted(model.namedparams())})
        assert_all_near(found[1], found[0], SUMS, f"iteration {i}")
    assert static.schedule_manager.statistics.define_by_run_calls == 0


def test_a_second_derivative_twice_through_one_gradient():
    static = sdbr.static_graph(lambda x: F.tanh(x) ** 2, enable_double_backprop=True)
    for x in BATCHES[:3]:
        v = chainer.Variable(x)
        (g,) = chainer.grad([static(v)], [v], enable_double_backprop=True)
        first, second = (chainer.grad([F.sum(g * k)], [v])[0].array for k in (1.0, 2.0))
        assert_near(second, 2 * first, RESULTS, "second derivative")
    assert static.schedule_manager.statistics.second_backwards == 4


def test_gradients_do_not_keep_the_call_alive():
    static = sdbr.static_graph(F.tanh, enable_double_backprop=True)
    for x in BATCHES[:3]:
        v = chainer.Variable(x)
        y = static(v)
        F.sum(y).backward(enable_double_backprop=True)
        assert v.grad_var.creator is not None
    gone = weakref.ref(v)
    gc.disable()
    try:
        del v, y
        assert gone() is None
    finally:
        gc.enable()


def test_old_style_functions_refuse_as_in_chainer():
    class Old(chainer.Function):
        def forward(self, inputs):
            return (inputs[0] * 2,)

        def backward(self, inputs, grads):
            return (grads[0] * 2,)

    static = sdbr.static_graph(lambda x: Old()(F.tanh(x)) ** 2, enable_double_backprop=True)
    for x in BATCHES[:3]:
        v = chainer.Variable(x)
        (g,) = chainer.grad([static(v)], [v], enable_double_backprop=True)
        with pytest.raises(RuntimeError, match="old style"):
            F.sum(g * g).backward()


def test_without_the_switch_the_error_names_it():
    static = sdbr.static_graph(lambda x: F.tanh(x) ** 2)
    for i, x in enumerate(BATCHES[:3]):
        v = chainer.Variable(x)
        (g,) = chainer.grad([static(v)], [v], enable_double_backprop=True)
        if i:
            with pytest.raises(sdbr.SdbrError, match="enable_double_backprop=True"):
                F.sum(g * g).backward()


def test_explain_counts_second_derivatives():
    static = sdbr.static_graph(lambda x: F.tanh(x) ** 2, enable_double_backprop=True)
    for x in BATCHES[:3]:
        v = chainer.Variable(x)
        (g,) = chainer.grad([static(v)], [v], enable_double_backprop=True)
        F.sum(g * g).backward()
    report = sdbr.explain(static)
    assert report.to_dict()["managers"][0]["statistics"]["second_backwards"] == 2
    assert re.search(r"second derivatives 2: 1 replayed, 1 through Chainer", str(report))


# --- WGAN-GP -----------------------------------------------------------------------------------
class Generator(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(3, 16)
            self.l2 = L.Linear(16, 6)

    def forward(self, z):
        return self.l2(F.relu(self.l1(z)))


class Critic(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(6, 16)
            self.l2 = L.Linear(16, 16)
            self.l3 = L.Linear(16, 1)

    def forward(self, x):
        return self.l3(F.leaky_relu(self.l2(F.leaky_relu(self.l1(x)))))


def critic_loss(critic, real, fake, mix):
    """Loss of the critic with the gradient penalty of points between real and fake."""
    between = chainer.Variable(mix * real + (1 - mix) * fake)
    (g,) = chainer.grad([critic(between)], [between], enable_double_backprop=True)
    norm = F.sqrt(F.batch_l2_norm_squared(g) + 1e-12)
    return F.mean(critic(fake) - critic(real)) + 10 * F.mean((norm - 1) ** 2)


def wgan(style: str, backend: str | None = None) -> dict:
    """20 iterations of WGAN-GP with Adam; what `style` says is static."""
    np.random.seed(0)
    generator, critic = Generator(), Critic()
    loss = critic_loss
    options = {"on_dynamic": "raise", "backend": backend}
    if style != "plain":
        generator = sdbr.static_graph(generator, **options)
    if style == "critic":
        critic = sdbr.static_graph(critic, enable_double_backprop=True, **options)
    elif style == "loss":
        loss = sdbr.static_graph(critic_loss, **options)
    adam = [chainer.optimizers.Adam(1e-2, beta1=0.5).setup(model) for model in (generator, critic)]
    if style != "plain":
        adam = [sdbr.static_optimizer(o) for o in adam]
    rng = np.random.RandomState(1)
    losses = []
    for _ in range(20):
        for _ in range(2):
            real = (rng.randn(8, 6) * 0.5 + 1).astype("f")
            with chainer.no_backprop_mode():
                fake = generator(rng.randn(8, 3).astype("f")).array
            value = loss(critic, real, fake, rng.rand(8, 1).astype("f"))
            critic.cleargrads()
            value.backward()
            adam[1].update()
            losses.append(float(value.array))
        generator.cleargrads()
        value = -F.mean(critic(generator(rng.randn(8, 3).astype("f"))))
        value.backward()
        adam[0].update()
    if style != "plain":
        manager = critic.schedule_manager if style == "critic" else manager_of(critic, loss)
        statistics = manager.statistics
        assert statistics.define_by_run_calls == 0
        assert not (style == "loss" and statistics.python_ops)
        assert statistics.replays >= 0.8 * statistics.calls >= 30
    return {"losses": np.array(losses, "f"), **state_of(generator), **{
        f"critic{name}": array for name, array in state_of(critic).items()
    }}  # fmt: skip


@pytest.mark.parametrize("style", ["critic", "loss"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_wgan_gp(style, backend):
    assert_all_near(wgan(style, backend), wgan("plain"), SUMS, style)


# --- with everything else ----------------------------------------------------------------------
def inside_loss(model, x):
    return model(x)


@pytest.mark.parametrize("name", ["leaky_relu", "tanh", "dropout", "batch normalization", "lstm"])
def test_validation_passes(name):
    body, links = BODIES[name]
    inside = sdbr.static_graph(make(penalised(body), links)(), validate_every=1)
    train(inside, inside_loss)
    outside = sdbr.static_graph(make(body, links)(), validate_every=1, enable_double_backprop=True)
    train(outside, penalty)
    for model in (inside, outside):
        assert model.schedule_manager.statistics.replays == 4


@pytest.mark.parametrize("name", ["leaky_relu", "sigmoid", "dropout", "shapes", "elu"])
@pytest.mark.parametrize("off", ["dead_code", "views", "fusion", "inplace", "memory"])
def test_without_passes(name, off):
    body, links = BODIES[name]
    build = make(penalised(body), links)
    options = {"memory": "no_reuse"} if off == "memory" else {}
    disabled = "" if off == "memory" else off
    with chainer.using_config("sdbr_disabled_passes", disabled):
        static = sdbr.static_graph(build(), on_dynamic="raise", **options)
        compare(train(static, inside_loss), train(build(), inside_loss))
    assert static.schedule_manager.statistics.replays == 4


def test_gradients_inside_the_call_in_test_mode():
    """Without backprop there is nothing to go back through, unless the call asks for it."""

    def saliency(x):
        with chainer.force_backprop_mode():
            y = F.sum(F.tanh(x) ** 2)
            (g,) = chainer.grad([y], [x])
        return g, y

    static = sdbr.static_graph(saliency, on_dynamic="raise")
    for mode in (chainer.no_backprop_mode, chainer.force_backprop_mode):
        for x in BATCHES[:3]:
            with chainer.using_config("train", False), mode():
                got = static(chainer.Variable(x))
                want = saliency(chainer.Variable(x))
            for g, w in zip(got, want, strict=True):
                assert_near(g.array, w.array, RESULTS, "saliency")
                assert (g.creator is None) == (w.creator is None)
    assert static.schedule_manager.statistics.replays == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_through_captured_state_and_nested_static_chains(backend):
    """Truncated backprop with a penalty on the gradient of the input, step by step."""

    def forward(self, x):
        h = self.rnn(x)
        y = F.sum(self.b(h) ** 2)
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        chainer.report({"norm": F.sum(g * g)}, self)
        self.last = g
        return y + F.sum(g * g)

    build = make(forward, {"rnn": lambda: L.LSTM(6, 8)})
    found = []
    for static in (False, True):
        model = build()
        if static:
            sdbr.static_graph(model.rnn)
            model = sdbr.static_graph(model, backend=backend, on_dynamic="raise")
        optimizer = chainer.optimizers.SGD(0.05).setup(model)
        records = []
        for i in range(9):
            if i % 3 == 0:
                model.rnn.reset_state()
                loss = 0
            loss += model(chainer.Variable(BATCHES[i]))
            if i % 3 == 2:
                model.cleargrads()
                loss.backward()
                loss.unchain_backward()
                optimizer.update()
            records.append({"loss": copy_of(loss.array), "g": model.last.array, **state_of(model)})
        found.append(records)
    for got, want in zip(found[1], found[0], strict=True):
        assert_all_near(got, want, SUMS, "step")
    assert model.schedule_manager.statistics.replays >= 6


SEQUENCES = np.random.RandomState(0).randn(6, 4, 3)


@pytest.mark.parametrize("updated", [False, True])
def test_an_update_between_a_call_and_its_second_derivative_is_said_aloud(updated):
    model = sdbr.static_graph(
        Net(lambda self, x: F.sum(F.tanh(self.l(x))), l=L.Linear(3, 2)), enable_double_backprop=True
    )
    optimizer = chainer.optimizers.SGD().setup(model)
    said = []
    for array in SEQUENCES[:4].astype("f"):
        x = chainer.Variable(array)
        y = model(x)
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        model.cleargrads()
        if updated:
            y.backward()
            optimizer.update()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            F.sum(g**2).backward()
        said += [w for w in caught if "between the call and its second" in str(w.message)]
        optimizer.update()
    assert len(said) == updated
