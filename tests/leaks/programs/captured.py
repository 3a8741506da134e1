"""What lies outside of the chain; arrays changed between a call and its backward."""

import functools
import types

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np


def _variable(run, *shape, **kwargs):
    return chainer.Variable(run.array(*shape), **kwargs)


# --- 4: captured state, wherever it lies -------------------------------------------------------

SCALE = chainer.Variable(np.full((4,), 2, "f"))


class Cfg:
    gain = chainer.Variable(np.full((4,), 1.5, "f"))
    weight = chainer.Parameter(np.full((4,), 0.5, "f"))
    layer = None


class Scaled(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 4)

    def forward(self, x):
        return F.tanh(self.l1(x)) * SCALE


def p_04_global(run):
    model = run.static(Scaled())
    for i in range(6):
        model.cleargrads()
        SCALE.cleargrad()
        F.sum(model(run.array(3, 4)) ** 2).backward()
        run.see("gradients", SCALE.grad, model)
        SCALE.array = run.array(4)
        if i == 3:
            SCALE.array[...] = 3


def p_04_global_rebound(run):
    global SCALE
    model = run.static(Scaled())
    for _ in range(6):
        model.cleargrads()
        SCALE = scale = _variable(run, 4)
        y = model(run.array(3, 4))
        F.sum(y * y).backward()
        run.see("gradients", y, scale.grad, model)


def p_04_global_other_shape(run):
    global SCALE
    model = run.static(Scaled())
    for i in range(8):
        model.cleargrads()
        SCALE = scale = _variable(run, *((4,) if i < 4 else (3, 1)))
        y = model(run.array(3, 4))
        F.sum(y * y).backward()
        run.see("gradients", y, scale.grad, model)


def p_04_closure(run):
    w = _variable(run, 4, 2)

    @run.static
    def head(x):
        return F.sigmoid(F.matmul(x, w))

    for i in range(6):
        w.cleargrad()
        F.sum(head(run.array(3, 4))).backward()
        run.see("w", w.grad)
        if i % 2:
            w.array -= 0.1 * w.grad
        else:
            w.array = w.array - 0.1 * w.grad


def p_04_closure_none(run):
    bias = None

    @run.static
    def head(x):
        return x * 2 if bias is None else x * 2 + bias

    for i in range(8):
        bias = None if i < 3 else _variable(run, 4)
        y = head(run.array(3, 4))
        run.see("y", y)
        if bias is not None:
            F.sum(y * y).backward()
            run.see("grad", bias.grad)


def p_04_default_argument(run):
    temperature = chainer.Variable(np.array(1.5, "f"))

    @run.static
    def soften(x, t=temperature):
        return F.softmax(x / F.broadcast_to(t, x.shape))

    for _ in range(6):
        temperature.cleargrad()
        y = soften(run.array(3, 5))
        F.sum(y * y).backward()
        run.see("t", temperature.grad, y)
        temperature.array = np.asarray(temperature.array + temperature.grad)


def p_04_class_attribute(run):
    class Net(chainer.Chain):
        def forward(self, x):
            return F.sin(x * Cfg.gain)

    model = run.static(Net())
    for _ in range(6):
        Cfg.gain = gain = _variable(run, 4)
        F.sum(model(run.array(3, 4))).backward()
        run.see("gain", gain.grad)


def p_04_own_class_attribute(run):
    class Net(chainer.Chain):
        shared = _variable(run, 4)

        def forward(self, x):
            return F.sin(x * self.shared)

    model = run.static(Net())
    for i in range(6):
        Net.shared.cleargrad()
        F.sum(model(run.array(3, 4))).backward()
        run.see("shared", Net.shared.grad)
        if i == 3:
            Net.shared = _variable(run, 4)
        Net.shared.array[...] *= 0.9


def p_04_plain_object(run):
    state = types.SimpleNamespace(h=_variable(run, 3, 4))

    class Step(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 4)

        def forward(self, x):
            return F.tanh(self.l(x) + state.h)

    model = run.static(Step())
    optimizer = chainer.optimizers.SGD().setup(model)
    for _ in range(6):
        model.cleargrads()
        before = state.h
        state.h = model(run.array(3, 4))
        F.sum(state.h).backward(retain_grad=True)
        optimizer.update()
        run.see("h", state.h, before.grad, model)
        state.h.unchain()


def p_04_object_on_the_link(run):
    class Gate:
        __slots__ = ("w",)

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.gate = Gate()
            self.gate.w = _variable(run, 4)

        def forward(self, x):
            return x * F.sigmoid(self.gate.w)

    model = run.static(Net())
    for i in range(6):
        model.gate.w.cleargrad()
        F.sum(model(run.array(3, 4))).backward()
        run.see("gate", model.gate.w.grad)
        model.gate.w.array += 1
        if i == 3:
            model.gate.w = _variable(run, 4)


def p_04_long_list(run):
    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.vectors = [_variable(run, 4) for _ in range(100)]

        def forward(self, x):
            return x * self.vectors[7] + self.vectors[90]

    model = run.static(Net())
    for i in range(7):
        for v in model.vectors:
            v.cleargrad()
        F.sum(model(run.array(3, 4)) ** 2).backward()
        run.see("grads", model.vectors[7].grad, model.vectors[90].grad)
        model.vectors[7].array += 1
        if i == 3:
            model.vectors[90] = _variable(run, 4)
        if i == 4:
            model.vectors[90] = _variable(run, 1, requires_grad=False)


def p_04_long_list_outside(run):
    vectors = [_variable(run, 4) for _ in range(80)]
    table = {"rows": vectors}

    @run.static
    def pick(x):
        return F.sum(x * table["rows"][70], axis=1)

    for i in range(6):
        vectors[70].cleargrad()
        F.sum(pick(run.array(3, 4)) ** 2).backward()
        run.see("grad", vectors[70].grad)
        vectors[70].array += 1
        if i == 2:
            vectors[70] = _variable(run, 4)


def p_04_parameters_outside(run):
    parameters = [chainer.Parameter(run.array(4)) for _ in range(70)]

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 4)

        def forward(self, x, t):
            return F.softmax_cross_entropy(self.l(x) * parameters[3] * Cfg.weight, t)

    model = run.static(Net())
    optimizer = run.optimizer(chainer.optimizers.MomentumSGD(0.1)).setup(model)
    for i in range(7):
        parameters[3].cleargrad()
        optimizer.update(model, run.array(5, 4), run.labels(5, 4))
        run.see("outside", parameters[3].grad, Cfg.weight.grad, model)
        if i == 3:
            parameters[3] = chainer.Parameter(run.array(4))
        if i == 4:
            Cfg.weight = chainer.Parameter(run.array(4))


def p_04_link_outside(run):
    encoder = L.Linear(4, 4)
    others = [L.Linear(4, 4) for _ in range(3)]

    @run.static
    def features(x):
        return F.tanh(others[1](encoder(x)))

    optimizer = run.optimizer(chainer.optimizers.Adam()).setup(encoder)
    for i in range(7):
        encoder.cleargrads()
        others[1].cleargrads()
        F.sum(features(run.array(3, 4)) ** 2).backward()
        optimizer.update()
        run.see("links", encoder, others[1])
        if i == 3:
            others[1] = L.Linear(4, 4)


def p_04_whole_step_with_mask(run):
    mask = chainer.Variable(np.ones((4,), "f"), requires_grad=False)

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 3)

        def forward(self, x, t):
            return F.softmax_cross_entropy(self.l(x * mask), t)

    model = run.static(Net())
    optimizer = run.optimizer(chainer.optimizers.SGD(0.5)).setup(model)
    for i in range(7):
        optimizer.update(model, run.array(5, 4), run.labels(5, 3))
        run.see("model", model)
        mask.array[i % 4] = 0
        if i == 4:
            mask.array = np.full(4, 2, "f")


def p_04_adversarial_noise(run):
    noise = chainer.Parameter(np.zeros((4,), "f"))

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 3)

        def forward(self, x, t):
            return F.softmax_cross_entropy(self.l(x + noise), t)

    model = run.static(Net())
    optimizer = run.optimizer(chainer.optimizers.SGD(0.5)).setup(model)
    for _ in range(6):
        noise.cleargrad()
        optimizer.update(model, run.array(5, 4), run.labels(5, 3))
        noise.array += 0.1 * np.sign(noise.grad)
        run.see("noise", noise, noise.grad, model)


def p_04_partial(run):
    def blend(w, x):
        return x * w

    w = _variable(run, 4)
    f = functools.partial(blend, w)

    @run.static
    def call(x):
        return f(x) + 1

    for _ in range(6):
        w.cleargrad()
        F.sum(call(run.array(3, 4)) ** 2).backward()
        run.see("w", w.grad)
        w.array += 1


def p_04_one_variable_two_names(run):
    a = _variable(run, 4)
    holder = {"b": a}

    @run.static
    def call(x):
        return x * a + holder["b"]

    for i in range(8):
        b = holder["b"]
        a.cleargrad()
        b.cleargrad()
        F.sum(call(run.array(3, 4)) ** 2).backward()
        run.see("both", a.grad, b.grad)
        if i == 3:
            holder["b"] = _variable(run, 4)
        a.array += 1


def p_04_history_outside(run):
    embedding = L.Linear(4, 4)
    code = None

    @run.static
    def decode(x):
        return F.tanh(x * code)

    for _ in range(6):
        embedding.cleargrads()
        code = embedding(run.array(3, 4))
        y = decode(run.array(3, 4))
        F.sum(y).backward()
        run.see("embedding", y, embedding)


def p_04_distribution(run):
    class Prior:
        def __init__(self):
            self.d = chainer.distributions.Normal(
                loc=_variable(run, 4), scale=chainer.Variable(np.ones(4, "f"))
            )

    prior = Prior()

    @run.static
    def score(x):
        return F.sum(prior.d.log_prob(x))

    for _ in range(6):
        prior.d.loc.cleargrad()
        y = score(run.array(3, 4))
        y.backward()
        run.see("loc", y, prior.d.loc.grad)
        prior.d.loc.array += 1


def p_04_argument_and_global(run):
    v = _variable(run, 4)

    @run.static
    def call(x):
        return x * v

    other = _variable(run, 4)
    for i in range(6):
        v.cleargrad()
        other.cleargrad()
        y = call(v if i == 0 else other)
        F.sum(y).backward()
        run.see("both", y, v.grad, other.grad)


def p_04_running_global(run):
    class State:
        h = chainer.Variable(np.zeros((3, 4), "f"))

    layer = L.Linear(4, 4)

    @run.static
    def step(x):
        State.h = F.tanh(layer(x) + State.h)
        return F.sum(State.h)

    for _ in range(6):
        layer.cleargrads()
        y = step(run.array(3, 4))
        y.backward()
        State.h.unchain_backward()
        run.see("state", y, State.h, layer)


# --- 13: in classes ----------------------------------------------------------------------------


def p_13_class_mask(run):
    class Net(chainer.Chain):
        mask = chainer.Variable(np.ones(4, "f"), requires_grad=False)

        def forward(self, x):
            return x * type(self).mask

    model = run.static(Net())
    for _ in range(6):
        run.see("y", model(run.array(3, 4)))
        Net.mask = _variable(run, 4, requires_grad=False)


def p_13_class_link(run):
    class Net(chainer.Chain):
        def forward(self, x):
            return F.relu(Cfg.layer(x))

    Cfg.layer = L.Linear(4, 4)
    model = run.static(Net())
    for i in range(7):
        Cfg.layer.cleargrads()
        F.sum(model(run.array(3, 4)) ** 2).backward()
        run.see("layer", Cfg.layer)
        if i == 3:
            Cfg.layer = L.Linear(4, 4)


def p_13_class_parameter(run):
    class Net(chainer.Chain):
        def forward(self, x):
            return F.exp(x * Cfg.weight)

    model = run.static(Net())
    for i in range(7):
        Cfg.weight.cleargrad()
        F.sum(model(run.array(3, 4))).backward()
        run.see("weight", Cfg.weight.grad)
        if i == 3:
            Cfg.weight = chainer.Parameter(run.array(4))


def p_13_class_links_in_list(run):
    class Bank:
        layers = tuple([L.Linear(4, 4) for _ in range(70)])

    @run.static
    def call(x):
        return Bank.layers[68](x)

    for i in range(7):
        Bank.layers[68].cleargrads()
        F.sum(call(run.array(3, 4)) ** 2).backward()
        run.see("layer", Bank.layers[68])
        if i == 3:
            Bank.layers = (*Bank.layers[:68], L.Linear(4, 4), None)


# --- 5: changed in place between forward and backward ------------------------------------------


def p_05_softmax_cross_entropy(run):
    @run.static
    def loss(x, t):
        return F.softmax_cross_entropy(x, t)

    for _ in range(5):
        x, t = _variable(run, 5, 3), run.labels(5, 3)
        y = loss(x, t)
        x.array[...] = 0
        y.backward()
        run.see("grad", x.grad)


def p_05_labels(run):
    @run.static
    def loss(x, t):
        return F.softmax_cross_entropy(x, t)

    buffer = np.zeros(5, "i")
    for _ in range(5):
        x = _variable(run, 5, 3)
        buffer[...] = run.labels(5, 3)
        y = loss(x, buffer)
        buffer[...] = run.labels(5, 3)  # the loader fills the next batch
        y.backward()
        run.see("grad", x.grad)


def p_05_layer_normalization(run):
    model = run.static(L.LayerNormalization(4))
    for _ in range(5):
        model.cleargrads()
        x = _variable(run, 5, 4)
        y = model(x)
        x.array *= 3
        model.gamma.array += 1
        F.sum(y * run.array(5, 4)).backward()
        run.see("grad", x.grad, model)


def p_05_absolute_error(run):
    @run.static
    def loss(x, t):
        return F.mean_absolute_error(x, t)

    for _ in range(5):
        x, t = _variable(run, 5, 4), run.array(5, 4)
        y = loss(x, t)
        x.array[...] = 5
        y.backward()
        run.see("grad", x.grad)


def p_05_lstm(run):
    @run.static
    def cell(c, x):
        return F.lstm(c, x)

    for _ in range(5):
        c, x = _variable(run, 5, 4), _variable(run, 5, 16)
        c_next, h = cell(c, x)
        x.array[...] = 0
        c.array += 1
        F.sum(c_next * h).backward()
        run.see("grad", c.grad, x.grad)


def p_05_parameter_clipped(run):
    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.w = chainer.Parameter(run.array(4))

        @run.static
        def forward(self, x):
            return F.sum(F.absolute_error(F.broadcast_to(self.w, x.shape), x))

    model = Net()
    for _ in range(5):
        model.cleargrads()
        y = model(run.array(3, 4))
        np.clip(model.w.array, -0.1, 0.1, out=model.w.array)
        y.backward()
        run.see("model", model)
        model.w.array[...] = run.array(4)


def p_05_output_changed(run):
    @run.static
    def squash(x):
        return F.sigmoid(x)

    for _ in range(5):
        x = _variable(run, 3, 4)
        y = squash(x)
        y.array[...] = 0.5
        F.sum(y * y).backward()
        run.see("grad", x.grad)
