"""Function nodes of users with effects outside: prints, logs, files, objects, generators."""

import contextlib
import io
import logging
import random
import tempfile

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np


class Net(chainer.Chain):
    def __init__(self, function):
        super().__init__()
        self.function = function
        with self.init_scope():
            self.l1 = L.Linear(4, 5)
            self.l2 = L.Linear(5, 3)

    def forward(self, x, t):
        h = self.function(F.tanh(self.l1(x)))
        return F.softmax_cross_entropy(self.l2(h), t)


def _train(run, function, look, steps=8, whole=True):
    np.random.seed(3)
    model = run.static(Net(function))
    optimizer = chainer.optimizers.SGD(0.1)
    optimizer = (run.optimizer(optimizer) if whole else optimizer).setup(model)
    for _ in range(steps):
        x, t = run.array(6, 4), run.labels(6, 3)
        if whole:
            optimizer.update(model, x, t)
        else:
            loss = model(x, t)
            model.cleargrads()
            loss.backward()
            optimizer.update()
        run.see("state", look(), model)


class Printed(chainer.FunctionNode):
    def forward(self, inputs):
        self.retain_inputs((0,))
        (x,) = inputs
        print("forward", x.shape)
        self.mask = x > 0
        return (x * self.mask,)

    def backward(self, indexes, gys):
        return (gys[0] * self.mask,)


class PrintedOld(chainer.Function):
    def forward_cpu(self, inputs):
        (x,) = inputs
        print("old", x.dtype)
        self.scale = np.float32(2)
        return (x * self.scale,)

    def backward_cpu(self, inputs, gys):
        return (gys[0] * self.scale,)


class PrintsBackward(chainer.FunctionNode):
    def forward(self, inputs):
        self.retain_outputs((0,))
        return (np.tanh(inputs[0]),)

    def backward(self, indexes, gys):
        (y,) = self.get_retained_outputs()
        print("backward", gys[0].shape)
        return (gys[0] * (1 - y * y),)


def _with_output(run, node, whole, count=len):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        _train(run, lambda x: node().apply((x,))[0], lambda: count(stream.getvalue()), whole=whole)


def p_01_prints(run):
    _with_output(run, Printed, False)


def p_01_prints_steps(run):
    _with_output(run, Printed, True)


def p_01_prints_backward(run):
    _with_output(run, PrintsBackward, False)


def p_01_prints_backward_steps(run):
    _with_output(run, PrintsBackward, True)


def p_01_prints_old(run):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        _train(run, lambda x: PrintedOld()(x), lambda: len(stream.getvalue()), whole=False)


def p_01_prints_now_and_then(run):
    count = {"n": 0}

    class Rarely(Printed):
        def forward(self, inputs):
            count["n"] += 1
            if count["n"] % 3 == 0:
                print("call", count["n"])
            return (inputs[0] * 2,)

        def backward(self, indexes, gys):
            return (gys[0] * 2,)

    _with_output(run, Rarely, False, count=str)


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def p_01_logs(run):
    logger = logging.Logger("node")
    handler = Lines()
    logger.addHandler(handler)

    class Logs(Printed):
        def forward(self, inputs):
            logger.info("%s", inputs[0].shape)
            return (inputs[0] * 3,)

        def backward(self, indexes, gys):
            return (gys[0] * 3,)

    _train(run, lambda x: Logs().apply((x,))[0], lambda: len(handler.lines), whole=False)


def p_01_writes_file(run):
    with tempfile.TemporaryFile("w+") as file:

        class Writes(Printed):
            def forward(self, inputs):
                file.write("line\n")
                return (inputs[0] + 1,)

            def backward(self, indexes, gys):
                return gys

        _train(run, lambda x: Writes().apply((x,))[0], lambda: file.tell(), whole=False)


class Meter:
    def __init__(self):
        self.n = 0
        self.seen = []


class Counts(chainer.FunctionNode):
    def __init__(self, meter):
        self.meter = meter

    def forward(self, inputs):
        self.meter.n += 1
        self.meter.seen.append(inputs[0].shape)
        return (inputs[0] * 2,)

    def backward(self, indexes, gys):
        return (gys[0] * 2,)


def p_01_counts_on_an_object(run):
    meter = Meter()
    _train(run, lambda x: Counts(meter).apply((x,))[0], lambda: [meter.n, len(meter.seen)])


def p_01_counts_on_an_object_calls(run):
    meters = (Meter(),)

    def function(x, pick=meters.__getitem__):
        return Counts(pick(0)).apply((x,))[0]

    _train(run, function, lambda: [meters[0].n, len(meters[0].seen)], whole=False)


def p_01_counts_on_the_class(run):
    class Counted(chainer.FunctionNode):
        calls = 0

        def forward(self, inputs):
            type(self).calls += 1
            return (inputs[0] * 2,)

        def backward(self, indexes, gys):
            return (gys[0] * 2,)

    _train(run, lambda x: Counted().apply((x,))[0], lambda: Counted.calls)


class OwnDraws(chainer.FunctionNode):
    def __init__(self, rng):
        self.rng = rng

    def forward(self, inputs):
        self.scale = np.float32(self.rng.random())
        return (inputs[0] * self.scale,)

    def backward(self, indexes, gys):
        return (gys[0] * self.scale,)


def p_01_draws_of_its_own(run):
    rng = random.Random(5)
    _train(run, lambda x: OwnDraws(rng).apply((x,))[0], lambda: rng.getstate()[1][-1])


def p_01_draws_of_its_own_calls(run):
    rng = np.random.default_rng(5)
    state = lambda: str(rng.bit_generator.state["state"]["state"])  # noqa: E731
    _train(run, lambda x: OwnDraws(rng).apply((x,))[0], state, whole=False)


def p_01_draws_and_prints(run):
    rng = random.Random(5)

    class Both(OwnDraws):
        def forward(self, inputs):
            print("draw")
            return super().forward(inputs)

    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        _train(
            run,
            lambda x: Both(rng).apply((x,))[0],
            lambda: [len(stream.getvalue()), rng.getstate()[1][-1]],
        )
