"""Gradients: what is forgotten, backwards inside of others, siblings, what stays on Variables."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np


class Block(chainer.Chain):
    def __init__(self, n=8):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(4, n)
            self.b = L.Linear(n, 5)

    def forward(self, x):
        return F.tanh(self.b(F.relu(self.a(x))))


class Checkpointed(chainer.Chain):
    """Saves memory in its blocks."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.block = Block()
            self.out = L.Linear(5, 3)

    def forward(self, x):
        return self.out(F.forget(self.block, x))


# --- 1: backwards of their own -------------------------------------------------------------------
def p_01_checkpoint_steps(run):
    model = run.static(L.Classifier(Checkpointed()))
    optimizer = run.optimizer(chainer.optimizers.MomentumSGD(0.1)).setup(model)
    for _ in range(6):
        run.observe(model, optimizer.update, model, run.array(6, 4), run.labels(6, 3))
        run.see("model", model)


def p_01_checkpoint_calls(run):
    model = run.static(Checkpointed())
    optimizer = chainer.optimizers.Adam().setup(model)
    for _ in range(6):
        loss = F.softmax_cross_entropy(model(run.array(6, 4)), run.labels(6, 3))
        model.cleargrads()
        loss.backward()
        run.see("model", loss, model)
        optimizer.update()


def p_01_checkpoint_first_layer(run):
    """Nothing outside of what is forgotten has parameters."""

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.block = Block()

        def forward(self, x, t):
            return F.mean_squared_error(F.forget(lambda a: self.block(a) * 2, x), t)

    model = run.static(Net())
    for _ in range(5):
        loss = model(run.array(6, 4), run.array(6, 5))
        model.cleargrads()
        loss.backward()
        run.see("model", loss, model)


def p_01_checkpoint_accumulates(run):
    """Two batches to an update, and no gradient for what it starts from."""
    model = run.static(Checkpointed())
    for i in range(6):
        if i % 2 == 0:
            model.cleargrads()
        x = chainer.Variable(run.array(6, 4), requires_grad=bool(i % 3))
        F.sum(model(x) ** 2).backward()
        run.see("model", model, x.grad)


def p_01_checkpoint_pair(run):
    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l, self.m = L.Linear(4, 5), L.Linear(4, 5)

        def both(self, a, b):
            h = F.sigmoid(self.l(a))
            return h * self.m(b), h

        def forward(self, x, y):
            u, w = F.forget(self.both, x, y)
            return F.sum(u * u) + F.mean(w)

    model = run.static(Net())
    optimizer = run.optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    for i in range(6):
        if i < 3:
            optimizer.update(model, run.array(6, 4), run.array(6, 4))
        else:
            x, y = chainer.Variable(run.array(6, 4)), run.array(6, 4)
            loss = model(x, y)
            model.cleargrads()
            loss.backward()
            run.see("x", x.grad)
        run.see("model", model)


def p_01_checkpoint_batch_norm(run):
    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l, self.bn = L.Linear(4, 6, nobias=True), L.BatchNormalization(6)
                self.out = L.Linear(6, 3)

        def stem(self, x):
            return F.relu(self.bn(self.l(x)))

        def forward(self, x):
            return self.out(F.forget(self.stem, x))

    model = run.static(L.Classifier(Net()))
    optimizer = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for _ in range(6):
        optimizer.update(model, run.array(8, 4), run.labels(8, 3))
        run.see("model", model, model.predictor.bn.avg_mean)


def p_01_checkpoint_shared(run):
    """The same layer inside and outside."""

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l, self.out = L.Linear(4, 4), L.Linear(4, 3)

        def forward(self, x):
            h = F.forget(lambda a: F.tanh(self.l(a)), x)
            return self.out(F.tanh(self.l(h)))

    model = run.static(L.Classifier(Net()))
    for _ in range(5):
        loss = model(run.array(6, 4), run.labels(6, 3))
        model.cleargrads()
        loss.backward()
        run.see("model", model)


def p_01_checkpoint_reports(run):
    class Net(Checkpointed):
        def noted(self, x):
            h = self.block(x)
            chainer.report({"mean": F.mean(h)}, self)
            self.h = h
            return h

        def forward(self, x):
            return self.out(F.forget(self.noted, x))

    model = run.static(Net())
    for _ in range(5):
        y = run.observe(model, model, run.array(6, 4))
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("model", model, model.h)


def p_01_checkpoint_dropout(run):
    class Net(Checkpointed):
        def forward(self, x):
            return self.out(F.forget(lambda a: F.dropout(self.block(a), 0.3), x))

    model = run.static(Net())
    for _ in range(5):
        y = model(run.array(6, 4))
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("model", y, model)


class Rematerialised(chainer.FunctionNode):
    """The user's own checkpoint."""

    def __init__(self, f):
        self.f = f

    def forward(self, inputs):
        self.retain_inputs((0,))
        with chainer.no_backprop_mode():
            return (self.f(chainer.Variable(inputs[0])).array,)

    def backward(self, indexes, gys):
        (x,) = self.get_retained_inputs()
        x = chainer.Variable(x.array)
        with chainer.force_backprop_mode():
            y = self.f(x)
        y.grad = gys[0].array
        y.backward()
        return (x.grad_var,)


def p_01_own_node_calls(run):
    class Net(Checkpointed):
        def forward(self, x):
            return self.out(Rematerialised(self.block).apply((chainer.as_variable(x),))[0])

    for net in (Net(), Net()):
        model = run.static(net)
        for _ in range(5):
            y = model(run.array(6, 4))
            model.cleargrads()
            F.sum(y * y).backward()
            run.see("model", y, model)


def p_01_own_node_variable(run):
    class Net(Checkpointed):
        def forward(self, x):
            (h,) = Rematerialised(self.block).apply((chainer.Variable(x),))
            return F.mean(self.out(h) ** 2)

    model = run.static(Net())
    for i in range(6):
        loss = model(run.array(6, 4))
        if i % 2:
            model.cleargrads()
        loss.backward()
        run.see("model", loss, model)


def p_01_own_node_steps(run):
    class Net(Checkpointed):
        def forward(self, x, t):
            (h,) = Rematerialised(self.block).apply((chainer.Variable(x),))
            return F.softmax_cross_entropy(self.out(h), t)

    model = run.static(Net())
    optimizer = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for _ in range(6):
        optimizer.update(model, run.array(6, 4), run.labels(6, 3))
        run.see("model", model)


class OldStyle(chainer.Function):
    def __init__(self, f):
        self.f = f

    def forward(self, inputs):
        with chainer.no_backprop_mode():
            return (self.f(chainer.Variable(inputs[0])).array,)

    def backward(self, inputs, gys):
        x = chainer.Variable(inputs[0])
        with chainer.force_backprop_mode():
            y = self.f(x)
        y.grad = gys[0]
        y.backward()
        return (x.grad,)


def p_01_old_function(run):
    class Net(Checkpointed):
        def forward(self, x, t):
            return F.softmax_cross_entropy(self.out(OldStyle(self.block)(chainer.Variable(x))), t)

    model = run.static(Net())
    optimizer = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    for i in range(8):
        x, t = run.array(6, 4), run.labels(6, 3)
        if i % 3 == 2:
            loss = model(x, t)
            model.cleargrads()
            loss.backward()
            optimizer.update()
        else:
            optimizer.update(model, x, t)
        run.see("model", model)


def p_01_sniffer(run):
    """The gradient is noted though nothing below wants one."""

    class Sniffer(chainer.FunctionNode):
        def forward(self, inputs):
            return inputs

        def backward(self, indexes, gys):
            run.see("on the way", gys[0].array)
            return gys

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.out = L.Linear(4, 3)

        def forward(self, x):
            (x,) = Sniffer().apply((chainer.Variable(x),))
            return self.out(x * 2)

    model = run.static(Net())
    for _ in range(5):
        model.cleargrads()
        F.sum(model(run.array(6, 4)) ** 2).backward()
        run.see("model", model)


def p_01_own_node_grad(run):
    """Its backward takes gradients of its parameters and adds them itself."""

    class Adds(chainer.FunctionNode):
        def __init__(self, link):
            self.link = link

        def forward(self, inputs):
            self.retain_inputs((0,))
            with chainer.no_backprop_mode():
                return (F.relu(self.link(inputs[0])).array,)

        def backward(self, indexes, gys):
            x = chainer.Variable(self.get_retained_inputs()[0].array)
            with chainer.force_backprop_mode():
                y = F.relu(self.link(x))
            gx, gw = chainer.grad([y], [x, self.link.W], [gys[0]])
            self.link.W.grad = gw.array if self.link.W.grad is None else self.link.W.grad + gw.array
            return (gx,)

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.a, self.b = L.Linear(4, 5), L.Linear(5, 3)

        def forward(self, x):
            return self.b(Adds(self.a).apply((chainer.Variable(x),))[0])

    model = run.static(Net())
    optimizer = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    for i in range(6):
        if i % 2:
            optimizer.update(lambda x: F.sum(model(x) ** 2), run.array(6, 4))
        else:
            model.cleargrads()
            F.sum(model(run.array(6, 4)) ** 2).backward()
        run.see("model", model)


# --- 2: siblings ---------------------------------------------------------------------------------
class Heads(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.trunk, self.left, self.right = L.Linear(4, 6), L.Linear(6, 3), L.Linear(6, 2)

    def forward(self, x):
        h = F.tanh(self.trunk(x))
        return self.left(h), self.right(h)


def p_02_heads_retained(run):
    model = run.static(Heads())
    for _ in range(6):
        x = chainer.Variable(run.array(5, 4))
        a, b = model(x)
        model.cleargrads()
        F.sum(a * a).backward(retain_grad=True)
        F.sum(b * b).backward(retain_grad=True)
        run.see("heads", a.grad, b.grad, x.grad, model)


def p_02_heads_in_turn(run):
    model = run.static(Heads())
    for i in range(6):
        x = chainer.Variable(run.array(5, 4))
        a, b = model(x)
        model.cleargrads()
        a.grad = run.array(5, 3)
        if i % 2:
            b.grad = run.array(5, 2)
        a.backward()
        run.see("first", a.grad, b.grad, x.grad, model)
        F.sum(b * 3).backward()
        run.see("second", a.grad, b.grad, x.grad, model)


def p_02_chain_of_results(run):
    """One result is made of the other."""

    @run.static
    def f(x):
        h = F.sin(x)
        return h, F.sum(h * h * h)

    for i in range(8):
        x = chainer.Variable(run.array(5))
        h, y = f(x)
        if i % 4 == 1:
            h.grad = run.array(5)
        y.backward(retain_grad=i % 2 == 0)
        run.see("y", h.grad, y.grad, x.grad)
        F.sum(h).backward()
        run.see("h", h.grad, y.grad, x.grad)
        if i % 3 == 0:
            (y * 2).backward(retain_grad=True)
            run.see("y again", h.grad, y.grad, x.grad)


def p_02_classifier_second_loss(run):
    model = run.static(L.Classifier(Heads2()))
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    for i in range(6):
        loss = model(run.array(6, 4), run.labels(6, 3))
        model.cleargrads()
        loss.backward(retain_grad=bool(i % 2))
        entropy = -F.mean(F.softmax(model.y) * F.log_softmax(model.y))
        entropy.backward()
        run.see("model", model.y.grad, model.loss.grad, model)
        optimizer.update()


class Heads2(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(4, 6), L.Linear(6, 3)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))


def p_02_split_axis(run):
    """Two results of one function: Chainer takes what lies on the other."""

    @run.static
    def f(x):
        a, b = F.split_axis(x * x, 2, axis=1)
        return a, b * 1, b

    for i in range(8):
        x = chainer.Variable(run.array(3, 6))
        a, c, b = f(x)
        if i % 2:
            b.grad = run.array(3, 3)
        if i % 4 > 1:
            c.grad = run.array(3, 3)
        F.sum(a).backward()
        run.see("a", x.grad, a.grad, b.grad, c.grad)
        F.sum(c).backward()
        run.see("c", x.grad, a.grad, b.grad, c.grad)


class Recurrent(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.lstm, self.out = L.LSTM(3, 4), L.Linear(4, 2)

    def forward(self, x):
        return self.out(self.lstm(x))


def p_02_lstm_backward_per_step(run):
    model = run.static(Recurrent())
    for i in range(3):
        model.lstm.reset_state()
        model.cleargrads()
        for _ in range(4):
            y = model(run.array(2, 3))
            F.sum(y * y).backward(retain_grad=i == 1)
            run.see("step", y.grad, model.lstm.h.grad, model.lstm.c.grad, model)


def p_02_lstm_truncated(run):
    model = run.static(Recurrent())
    optimizer = chainer.optimizers.SGD(0.05).setup(model)
    loss = 0
    for i in range(12):
        y = model(run.array(2, 3))
        loss += F.sum(y * y)
        if i % 3 == 2:
            model.cleargrads()
            loss.backward()
            loss.unchain_backward()
            optimizer.update()
            loss = 0
            run.see("model", model)


def p_02_unchain_one_head(run):
    model = run.static(Heads())
    for i in range(6):
        x = chainer.Variable(run.array(5, 4))
        a, b = model(x)
        model.cleargrads()
        if i % 3 == 0:
            F.sum(a).unchain_backward()
        elif i % 3 == 1:
            a.unchain()
        F.sum(b * b).backward()
        run.see("b", a.grad, b.grad, x.grad, model)
        F.sum(a * a).backward()
        run.see("a", a.grad, b.grad, x.grad, model)


def p_02_unchain_between(run):
    """A history cut at a feature."""

    class Net(Heads2):
        def forward(self, x):
            self.h = F.relu(self.l1(x))
            return self.l2(self.h)

    model = run.static(Net())
    for i in range(6):
        y = model(run.array(5, 4))
        model.cleargrads()
        if i % 2:
            model.h.unchain()
        F.sum(y * y).backward()
        run.see("h", model.h.grad, model)


def p_02_backward_of_many(run):
    model = run.static(Heads())
    for _ in range(5):
        x = chainer.Variable(run.array(5, 4))
        a, b = model(x)
        model.cleargrads()
        a.grad, b.grad = run.array(5, 3), run.array(5, 2)
        chainer.backward([a, b])
        run.see("both", a.grad, b.grad, x.grad, model)


def p_02_several_backwards(run):
    model = run.static(Heads())
    for _ in range(5):
        x = chainer.Variable(run.array(5, 4))
        a, b = model(x)
        model.cleargrads()
        for scale in (1, 2, 3):
            F.sum(a * scale).backward()
            a.grad = run.array(5, 3)
            F.sum(b * scale + F.sum(a)).backward()
            run.see("again", a.grad, b.grad, x.grad, model)


# --- 3: what the call stored ---------------------------------------------------------------------
class Camera(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(2, 3, 3, pad=1)
            self.fc = L.Linear(3, 4)

    def forward(self, x):
        self.feature = F.relu(self.conv(x))
        return self.fc(F.average(self.feature, axis=(2, 3)))


def p_03_cam(run):
    model = run.static(Camera())
    for i in range(5):
        y = model(run.array(2, 2, 5, 5))
        model.cleargrads()
        F.sum(y[:, i % 4]).backward(retain_grad=True)
        weights = model.feature.grad.mean(axis=(2, 3), keepdims=True)
        run.see("map", np.maximum((model.feature.array * weights).sum(axis=1), 0), model)


def p_03_cam_seeded(run):
    model = run.static(Camera())
    for i in range(5):
        with chainer.using_config("train", False):
            y = model(run.array(2, 2, 5, 5))
        y.grad = np.zeros_like(y.array)
        y.grad[:, i % 4] = 1
        model.cleargrads()
        y.backward(retain_grad=True)
        run.see("map", model.feature.grad, y.grad, model)


def p_03_grad_between_results(run):
    @run.static
    def f(x, w):
        h = F.tanh(F.matmul(x, w))
        return h, F.sum(h**2, axis=1), F.exp(h)

    for i in range(6):
        x, w = chainer.Variable(run.array(3, 4)), chainer.Variable(run.array(4, 4))
        h, y, z = f(x, w)
        grads = chainer.grad([y], [h])
        grads += chainer.grad([y, z], [h, x], retain_grad=i % 2 == 0)
        grads += chainer.grad([F.sum(y) + F.sum(z * h)], [w, h, z, y], set_grad=i == 3)
        run.see("grads", *grads, h.grad, y.grad, z.grad, x.grad)
        F.sum(y).backward()
        run.see("after", h.grad, y.grad, z.grad, x.grad)


def p_03_stored_input(run):
    """A saliency map: the input as a Variable of the call's own."""

    class Net(Heads2):
        def forward(self, x):
            self.x = chainer.Variable(x)
            return self.l2(F.relu(self.l1(self.x)))

    model = run.static(Net())
    for _ in range(5):
        y = model(run.array(5, 4))
        model.cleargrads()
        F.max(y).backward()
        run.see("saliency", model.x.grad, model)


def p_03_list_of_features(run):
    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.ls = chainer.ChainList(*[L.Linear(4, 4) for _ in range(3)])

        def forward(self, x):
            hs = []
            for layer in self.ls:
                x = F.sigmoid(layer(x)) + x
                hs.append(x)
            self.hs = hs
            return {"y": F.sum(x, axis=1), "middle": hs[1]}

    model = run.static(Net())
    for _ in range(5):
        x = chainer.Variable(run.array(3, 4))
        out = model(x)
        model.cleargrads()
        F.sum(out["y"] ** 2).backward(retain_grad=True)
        run.see("grads", [h.grad for h in model.hs], out["middle"].grad, x.grad, model)


def p_03_style_loss(run):
    """Features of several layers, each with a loss outside of the call."""

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.c1, self.c2 = L.Convolution2D(1, 3, 3, pad=1), L.Convolution2D(3, 4, 3, pad=1)

        def forward(self, x):
            a = F.relu(self.c1(x))
            b = F.relu(self.c2(F.max_pooling_2d(a, 2)))
            return a, b

    model = run.static(Net())
    image = chainer.Parameter(run.array(1, 1, 6, 6))
    for i in range(6):
        a, b = model(image)
        loss = F.mean(a * a) + F.sum(
            F.matmul(F.reshape(b, (4, 9)), F.reshape(b, (4, 9)), transb=True)
        )
        image.cleargrad()
        model.cleargrads()
        loss.backward(retain_grad=i % 2 == 1)
        image.array -= 0.01 * image.grad
        run.see("image", image, image.grad, a.grad, b.grad, model)


def p_03_penalised_feature(run):
    """A second derivative through a feature."""

    class Net(Heads2):
        def forward(self, x):
            self.h = F.tanh(self.l1(x))
            return F.sum(self.l2(self.h) ** 2)

    model = run.static(Net(), enable_double_backprop=True)
    for _ in range(5):
        y = model(run.array(5, 4))
        (g,) = chainer.grad([y], [model.h], enable_double_backprop=True)
        model.cleargrads()
        (y + F.sum(g * g)).backward()
        run.see("model", y, g, model)
