"""Own function nodes, functions, links; compositions of links."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import initializers

from tests.leaks.programs._kit import Net, forward, labelled, loss, table

CALLS = []
TEMPERATURE = 1.0


class Square(chainer.FunctionNode):
    def forward(self, inputs):
        self.retain_inputs((0,))
        return (inputs[0] ** 2,)

    def backward(self, indexes, gys):
        (x,) = self.get_retained_inputs()
        return (2 * x * gys[0],)


class ScaledByMax(chainer.FunctionNode):
    def forward(self, inputs):
        (x,) = inputs
        self.scale = 1 / max(1.0, float(abs(x).max()))
        return ((x * self.scale).astype("f"),)

    def backward(self, indexes, gys):
        return (gys[0] * self.scale,)


class Counting(chainer.FunctionNode):
    calls = 0

    def forward(self, inputs):
        Counting.calls += 1
        return (inputs[0] * Counting.calls,)

    def backward(self, indexes, gys):
        return (gys[0] * Counting.calls,)


class Scheduled(chainer.FunctionNode):
    def __init__(self, strength):
        self.strength = strength

    def forward(self, inputs):
        return (inputs[0],)

    def backward(self, indexes, gys):
        return (-self.strength * gys[0],)


class Straight(chainer.FunctionNode):
    def forward(self, inputs):
        return (np.where(inputs[0] > 0, 1, -1).astype(inputs[0].dtype),)

    def backward(self, indexes, gys):
        return gys


class Noisy(chainer.FunctionNode):
    def forward(self, inputs):
        self.noise = np.random.randn(*inputs[0].shape).astype("f")
        return (inputs[0] * self.noise,)

    def backward(self, indexes, gys):
        return (gys[0] * self.noise,)


class NoisyBackward(chainer.FunctionNode):
    def forward(self, inputs):
        return (inputs[0] * 1,)

    def backward(self, indexes, gys):
        return (gys[0] * np.random.rand(*gys[0].shape).astype("f"),)


class TwoOutputs(chainer.FunctionNode):
    def forward(self, inputs):
        (x,) = inputs
        return x[:, :2].copy(), x[:, 2:].copy()

    def backward(self, indexes, gys):
        a, b = gys
        zeros = np.zeros((len((a if a is not None else b).array), 2), "f")
        return (F.concat([zeros if a is None else a, zeros[:, :1] if b is None else b]),)


class Logging(chainer.FunctionNode):
    def forward(self, inputs):
        CALLS.append("forward")
        return (inputs[0] * 2,)

    def backward(self, indexes, gys):
        CALLS.append(float(gys[0].array.sum()))
        return (gys[0] * 2,)


class ReadsGlobal(chainer.FunctionNode):
    def forward(self, inputs):
        return (inputs[0] * np.float32(TEMPERATURE),)

    def backward(self, indexes, gys):
        return (gys[0] * TEMPERATURE,)


class ReadsConfig(chainer.FunctionNode):
    def forward(self, inputs):
        return (inputs[0] * (1 if chainer.config.train else 2),)

    def backward(self, indexes, gys):
        return (gys[0],)


class OldExp(chainer.Function):
    def forward(self, inputs):
        self.y = np.exp(inputs[0])
        return (self.y,)

    def backward(self, inputs, gys):
        return (gys[0] * self.y,)


class OldTopK(chainer.Function):
    def forward(self, inputs):
        (x,) = inputs
        self.keep = x >= np.sort(x, axis=1)[:, -2:-1]
        return (x * self.keep,)

    def backward(self, inputs, gys):
        return (gys[0] * self.keep,)


class OldState(chainer.Function):
    def __init__(self, state):
        self.state = state

    def forward(self, inputs):
        self.state["n"] = self.state.get("n", 0) + 1
        return (inputs[0] * self.state["n"],)

    def backward(self, inputs, gys):
        return (gys[0] * self.state["n"],)


class RunningCenter(chainer.FunctionNode):
    def __init__(self, mean):
        self.mean = mean

    def forward(self, inputs):
        (x,) = inputs
        self.mean *= 0.9
        self.mean += 0.1 * x.mean(0)
        return (x - self.mean,)

    def backward(self, indexes, gys):
        return (gys[0],)


def change_global(y):
    global TEMPERATURE
    TEMPERATURE *= 0.8
    return y


SHARED = Noisy
STATE = {}

table(
    globals(),
    forward,
    {
        "square": lambda self, x: Square().apply((self.net(x),))[0],
        "scaled_by_max": lambda self, x: ScaledByMax().apply((self.net(x) * 3,))[0],
        "counting": lambda self, x: Counting().apply((self.net(x),))[0],
        "gradient_reversal": lambda self, x: Scheduled(0.5).apply((self.net(x),))[0],
        "gradient_reversal_attribute": lambda self, x: Scheduled(self.strength).apply(
            (self.net(x),)
        )[0],
        "straight_through": lambda self, x: Straight().apply((self.net(x),))[0],
        "noisy": lambda self, x: Noisy().apply((self.net(x),))[0],
        "noisy_backward": lambda self, x: NoisyBackward().apply((self.net(x),))[0],
        "two_outputs": lambda self, x: TwoOutputs().apply((self.net(x),)),
        "two_outputs_first": lambda self, x: TwoOutputs().apply((self.net(x),))[0],
        "logging_node": lambda self, x: Logging().apply((self.net(x),))[0],
        "reads_global": lambda self, x: ReadsGlobal().apply((self.net(x),))[0],
        "reads_global_that_changes": lambda self, x: change_global(
            ReadsGlobal().apply((self.net(x),))[0]
        ),
        "reads_config": lambda self, x: ReadsConfig().apply((self.net(x),))[0],
        "old_exp": lambda self, x: OldExp()(self.net(x)),
        "old_top_k": lambda self, x: OldTopK()(self.net(x)),
        "old_state": lambda self, x: OldState(STATE)(self.net(x)),
        "old_state_attribute": lambda self, x: OldState(self.counts)(self.net(x)),
        "running_center": lambda self, x: RunningCenter(self.mean).apply((self.net(x),))[0],
        "node_with_mask": lambda self, x: _masked(self, x),
        "node_attribute_read": lambda self, x: _scale_read(self, x),
        "node_array_attribute_read": lambda self, x: _noise_read(self, x),
        "node_kept_on_chain": lambda self, x: _kept(self, x),
        "functional_dropout_node": lambda self, x: _dropout_node(self, x),
        "force_backward": lambda self, x: F.forget(self.net, x),
        "lambda_in_sequential": lambda self, x: chainer.Sequential(
            self.l1, F.tanh, lambda h: h * 2, self.l2
        )(x),
        "sequential_built_each_time": lambda self, x: chainer.Sequential(self.l1, F.relu, self.l2)(
            x
        ),
        "get_retained": lambda self, x: Square().apply((Square().apply((self.net(x),))[0],))[0],
    },
    strength=1.0,
    counts=dict,
    mean=lambda: np.zeros(3, "f"),
)


class Masked(chainer.FunctionNode):
    def __init__(self, mask):
        self.mask = mask

    def forward(self, inputs):
        return (inputs[0] * self.mask,)

    def backward(self, indexes, gys):
        return (gys[0] * self.mask,)


def _masked(self, x):
    return Masked((x[:, :3] > 0).astype("f")).apply((self.net(x),))[0]


def _scale_read(self, x):
    node = ScaledByMax()
    (y,) = node.apply((self.net(x) * 3,))
    self.scale = node.scale
    return y


def _noise_read(self, x):
    node = Noisy()
    (y,) = node.apply((self.net(x),))
    return y, node.noise


def _kept(self, x):
    self.node = Noisy()
    return self.node.apply((self.net(x),))[0]


def _dropout_node(self, x):
    node = F.noise.dropout.Dropout(0.5)
    (y,) = node.apply((self.net(x),))
    return y, getattr(node, "mask", None) is not None


class Scale(chainer.Link):
    def __init__(self):
        super().__init__()
        self.calls = 0
        with self.init_scope():
            self.g = chainer.Parameter(np.ones(3, "f"))
        self.add_persistent("total", np.zeros(3, "f"))
        self.add_persistent("n", 0)

    def forward(self, x):
        return x * F.broadcast_to(self.g, x.shape)


class Counted(Scale):
    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Totals(Scale):
    def forward(self, x):
        self.total += x.array.sum(0)
        return super().forward(x)


class TotalsRebound(Scale):
    def forward(self, x):
        self.total = self.total + x.array.sum(0)
        return super().forward(x)


class PersistentCount(Scale):
    def forward(self, x):
        self.n += 1
        return super().forward(x) / self.n


class Lazy(chainer.Chain):
    def forward(self, x):
        if not hasattr(self, "fc"):
            with self.init_scope():
                self.fc = L.Linear(x.shape[1], 3)
        return self.fc(x)


class LazyAddLink(chainer.Chain):
    def forward(self, x):
        if not hasattr(self, "fc"):
            self.add_link("fc", L.Linear(x.shape[1], 3))
            self.add_param("bias", (3,), initializer=0.5)
        return self.fc(x) + F.broadcast_to(self.bias, (len(x), 3))


class Uninitialized(chainer.Link):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.W = chainer.Parameter(initializers.Normal(0.1))
            self.b = chainer.Parameter(0)

    def forward(self, x):
        if not self.W.is_initialized:
            self.W.initialize((3, x.shape[1]))
            self.b.initialize(3)
        return F.linear(x, self.W, self.b)


class WeightNorm(chainer.Link):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.v = chainer.Parameter(initializers.Normal(0.1), (3, 4))
            self.g = chainer.Parameter(1, (3, 1))

    def forward(self, x):
        w = self.v / F.broadcast_to(F.sqrt(F.sum(self.v**2, axis=1, keepdims=True)), self.v.shape)
        return F.linear(x, w * F.broadcast_to(self.g, w.shape))


class DataInit(chainer.Link):
    def __init__(self):
        super().__init__()
        self.ready = False
        with self.init_scope():
            self.b = chainer.Parameter(0, (3,))

    def forward(self, x):
        if not self.ready:
            self.b.array[...] = -x.array.mean(0)
            self.ready = True
        return x + F.broadcast_to(self.b, x.shape)


class Quantized(L.Linear):
    def forward(self, x):
        w = chainer.Variable(np.round(self.W.array * 8) / 8)
        return F.linear(x, w, self.b)


class Binary(L.Linear):
    def forward(self, x):
        (w,) = Straight().apply((self.W,))
        return F.linear(x, w, self.b)


class Pruned(L.Linear):
    def forward(self, x):
        edge = np.median(abs(self.W.array))
        return F.linear(x, self.W * (abs(self.W.array) > edge), self.b)


class Clipped(L.Linear):
    def forward(self, x):
        np.clip(self.W.array, -0.2, 0.2, out=self.W.array)
        return super().forward(x)


class Spectral(L.Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.u = np.ones((1, 3), "f")

    def forward(self, x):
        v = self.u @ self.W.array
        v /= np.linalg.norm(v)
        self.u = v @ self.W.array.T
        self.u = self.u / np.linalg.norm(self.u)
        sigma = F.sum(F.matmul(F.matmul(self.u, self.W), v.T))
        return F.linear(x, self.W / F.broadcast_to(sigma, self.W.shape), self.b)


class SpectralInPlace(Spectral):
    def forward(self, x):
        v = self.u @ self.W.array
        v /= np.linalg.norm(v)
        self.u[...] = v @ self.W.array.T
        self.u /= np.linalg.norm(self.u)
        return F.linear(x, self.W / (self.u @ self.W.array @ v.T).item(), self.b)


def link_loop(make, dims=4):
    """A link of one's own behind (or as) a layer."""

    def program(run):
        class Model(chainer.Chain):
            def __init__(self):
                super().__init__()
                with self.init_scope():
                    self.link = make()
                    self.last = L.Linear(3, 3)

            def forward(self, x, t):
                h = self.link(chainer.as_variable(x[:, :dims]))
                return F.softmax_cross_entropy(self.last(F.tanh(h)), t)

        model = run.static(Model())
        rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
        for n in (6, 6, 6, 3, 6, 3, 6):
            run.observe(model, rule.update, model, run.array(n, 4), run.labels(n, 3))
            run.see("model", model)
        with chainer.using_config("train", False):
            run.see("test", model(run.array(6, 4), run.labels(6, 3)), model)

    return program


for _cls, _dims in {
    Scale: 3, Counted: 3, Totals: 3, TotalsRebound: 3, PersistentCount: 3, Lazy: 4, LazyAddLink: 4,
    Uninitialized: 4, WeightNorm: 4, DataInit: 3,
}.items():  # fmt: skip
    globals()[f"p_link_{_cls.__name__.lower()}"] = link_loop(_cls, _dims)
for _cls in (Quantized, Binary, Pruned, Clipped, Spectral, SpectralInPlace):
    globals()[f"p_link_{_cls.__name__.lower()}"] = link_loop(lambda cls=_cls: cls(4, 3))


class Lists(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.layers = chainer.ChainList(L.Linear(4, 4), L.Linear(4, 4))
            self.seq = chainer.Sequential(L.Linear(4, 4), F.relu).repeat(2)
            self.out = L.Linear(4, 3)
        self.plain = [self.out, self.out]
        self.named = {"a": self.layers[0], "b": self.layers[1]}


def _grow(self, x, t):
    if len(self.layers) < 3:
        self.layers.append(L.Linear(4, 4))
    h = x
    for layer in self.layers:
        h = F.tanh(layer(h))
    return F.softmax_cross_entropy(self.out(h), t)


def _loop(self, x, t):
    h = x
    for layer in self.layers:
        h = F.tanh(layer(h))
    return F.softmax_cross_entropy(self.out(h), t)


def _random_layer(self, x, t):
    return F.softmax_cross_entropy(self.out(self.layers[np.random.randint(2)](x)), t)


def _layer_by_label(self, x, t):
    return F.softmax_cross_entropy(self.out(self.layers[int(t[0] > 0)](x)), t)


def _experts(self, x, t):
    gate = x[:, 0] > 0
    h = F.where(np.broadcast_to(gate[:, None], (len(x), 4)), self.layers[0](x), self.layers[1](x))
    return F.softmax_cross_entropy(self.out(h), t)


def _experts_split(self, x, t):
    parts = [
        layer(x[pick])
        for layer, pick in zip(self.layers, (x[:, 0] > 0, x[:, 0] <= 0), strict=True)
        if pick.any()
    ]
    order = np.argsort(np.argsort(~(x[:, 0] > 0), kind="stable"), kind="stable")
    return F.softmax_cross_entropy(self.out(F.concat(parts, axis=0)[order]), t)


def _plain_list(self, x, t):
    return F.softmax_cross_entropy(sum(link(x) for link in self.plain), t)


def _named_dict(self, x, t):
    return F.softmax_cross_entropy(self.out(self.named["a"](x) + self.named["b"](x)), t)


def _sequential(self, x, t):
    return F.softmax_cross_entropy(self.out(self.seq(x)), t)


def _sequential_slices(self, x, t):
    return F.softmax_cross_entropy(self.out(self.seq[0](x) + self.layers[0](x)), t)


def _by_name(self, x, t):
    return F.softmax_cross_entropy(self.out(self["layers"][0](x)), t)


def _shared_weights(self, x, t):
    return F.softmax_cross_entropy(self.out(F.linear(x, self.layers[0].W.T, self.layers[1].b)), t)


def _children_order(self, x, t):
    h = x
    for name, link in sorted((k.name, k) for k in self.children() if k.name == "out"):
        h = link(h) * len(name)
    return F.softmax_cross_entropy(h, t)


table(
    globals(),
    loss,
    {
        f"chain{f.__name__}": f
        for f in (
            _grow, _loop, _random_layer, _layer_by_label, _experts, _experts_split,
            _plain_list, _named_dict, _sequential, _sequential_slices, _by_name,
            _shared_weights, _children_order,
        )
    },
    net=Lists,
)  # fmt: skip


def grown(change, at=4, rounds=8):
    """The structure is changed between calls."""

    def program(run):
        class Model(Lists):
            def forward(self, x, t):
                return _loop(self, x, t)

        model = run.static(Model())
        rule = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
        for i in range(rounds):
            if i == at:
                change(model)
                rule.setup(model)
            run.observe(model, rule.update, model, run.array(5, 4), run.labels(5, 3))
            run.see("model", model)

    return program


def _insert(model):
    model.layers.append(L.Linear(4, 4))


def _replace_out(model):
    model.out = L.Linear(4, 3)


def _replace_in_list(model):
    model.layers[0] = L.Linear(4, 4)


def _pop(model):
    del model.layers[1]


def _swap(model):
    model.layers[0], model.layers[1] = model.layers[1], model.layers[0]


def _rename_shared(model):
    model.layers[1].W = model.layers[0].W


def _deleted_bias(model):
    model.layers[0].b = None
    model.layers[0]._params.discard("b")


def _add_param_later(model):
    with model.init_scope():
        model.unused = chainer.Parameter(np.ones(2, "f"))


def _class_changed(model):
    model.layers[0].__class__ = Binary


def _forward_replaced(model):
    model.layers[0].forward = lambda x: F.linear(x, model.layers[1].W)


for _f in (_insert, _replace_out, _replace_in_list, _pop, _swap, _rename_shared, _deleted_bias,
           _add_param_later, _class_changed, _forward_replaced):  # fmt: skip
    globals()[f"p_later{_f.__name__}"] = grown(_f)


@forward(inputs=labelled)
def p_lambda_node_closure(self, x, t):
    weight = np.bincount(t, minlength=3).astype("f")

    class Weighted(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0] * weight,)

        def backward(self, indexes, gys):
            return (gys[0] * weight,)

    return Weighted().apply((self.net(x),))[0]


@forward(inputs=labelled)
def p_labels_as_node_input(self, x, t):
    class Pick(chainer.FunctionNode):
        def forward(self, inputs):
            y, k = inputs
            self.shape = y.shape
            self.retain_inputs((1,))
            return (y[np.arange(len(k)), k],)

        def backward(self, indexes, gys):
            (k,) = self.get_retained_inputs()
            g = np.zeros(self.shape, "f")
            g[np.arange(len(k)), k.array] = gys[0].array
            return chainer.Variable(g), None

    return Pick().apply((self.net(x), t))[0]


@forward
def p_no_gradient_from_node(self, x):
    class Blocked(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0] * 1,)

        def backward(self, indexes, gys):
            return (None,)

    return Blocked().apply((self.net(x),))[0] + self.net(x)


@forward
def p_node_calls_functions(self, x):
    class Composite(chainer.FunctionNode):
        def forward(self, inputs):
            self.retain_inputs((0,))
            return (F.softmax(inputs[0]).array,)

        def backward(self, indexes, gys):
            (v,) = self.get_retained_inputs()
            s = F.softmax(v)
            return (s * (gys[0] - F.broadcast_to(F.sum(s * gys[0], 1, keepdims=True), s.shape)),)

    return Composite().apply((self.net(x),))[0]


@forward
def p_node_ends_in_python_state(self, x):
    seen = []

    class Peek(chainer.FunctionNode):
        def forward(self, inputs):
            seen.append(float(inputs[0].sum()))
            return (inputs[0] * 1,)

        def backward(self, indexes, gys):
            return gys

    y = Peek().apply((self.net(x),))[0]
    return y * seen[0]


@loss(net=Net)
def p_custom_loss_node(self, x, t):
    class Hinge(chainer.FunctionNode):
        def forward(self, inputs):
            y, t = inputs
            self.sign = np.where(np.arange(3) == t[:, None], 1, -1)
            self.inside = 1 - self.sign * y > 0
            return (np.asarray((np.maximum(0, 1 - self.sign * y)).mean(), "f"),)

        def backward(self, indexes, gys):
            g = (-self.sign * self.inside / self.inside.size).astype("f")
            return F.broadcast_to(gys[0], g.shape) * g, None

    return Hinge().apply((self.net(x), t))[0]
