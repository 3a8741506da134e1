"""Arrays that the user writes to, or reads again, after the call: which are views of which."""

import chainer
import chainer.functions as F
import numpy as np


def _after_writing(run, function, write, n=5, shape=(4, 6)):
    """``function(x)``, `write` on what came out, then the backward of its first result."""
    static = run.static(function)
    for i in range(n):
        x = chainer.Variable(run.array(*shape))
        out = static(x)
        ys = out if isinstance(out, tuple) else (out,)
        write(x, *ys)
        run.see("results", *ys, x)
        y = ys[0]
        y.grad = np.full_like(y.array, i + 1)
        y.backward()
        run.see("gradient", x.grad)


def _double(x, y, *more):
    y.array[...] *= 2


def p_05_slice(run):
    _after_writing(run, lambda x: F.exp(x)[1:], _double)


def p_05_column(run):
    _after_writing(run, lambda x: F.sigmoid(x)[:, 2], _double)


def p_05_steps(run):
    _after_writing(run, lambda x: F.tanh(x)[::2, ::-1], _double)


def p_05_reshaped(run):
    _after_writing(run, lambda x: F.reshape(F.exp(x), (2, 12)), _double)


def p_05_transposed_slice(run):
    _after_writing(run, lambda x: F.transpose(F.exp(x))[1:4], _double)


def p_05_squeezed(run):
    _after_writing(run, lambda x: F.squeeze(F.exp(x)[1:2], 0), _double)


def p_05_expanded(run):
    _after_writing(run, lambda x: F.expand_dims(F.exp(x), 1)[:, 0], _double)


def p_05_piece(run):
    _after_writing(run, lambda x: F.split_axis(F.exp(x), 2, 1)[1], _double)


def p_05_all_pieces(run):
    _after_writing(
        run,
        lambda x: (
            F.split_axis(F.exp(x), 3, 0, True)[1:3]
            if False
            else tuple(F.split_axis(F.exp(x), 2, 0))
        ),
        _double,
    )


def p_05_separated(run):
    _after_writing(run, lambda x: F.separate(F.exp(x), 0)[2], _double)


def p_05_concatenated(run):
    _after_writing(run, lambda x: F.concat([F.exp(x), F.exp(-x)])[:, 2:5], _double)


def p_05_diagonal(run):
    def write(x, y):
        if y.array.flags.writeable:
            y.array[...] *= 2

    _after_writing(run, lambda x: F.diagonal(F.exp(x)), write)


def p_05_flipped(run):
    _after_writing(run, lambda x: F.flip(F.exp(x), 1)[1:], _double)


def p_05_y_and_slice(run):
    _after_writing(run, lambda x: (lambda y: (y, y[1:]))(F.exp(x)), _double)


def p_05_slice_and_y(run):
    _after_writing(run, lambda x: (lambda y: (y[1:], y))(F.exp(x)), _double)


def p_05_y_and_array(run):
    def function(x):
        y = F.exp(x)
        return y, y.array

    def write(x, y, a):
        a[...] = 3

    _after_writing(run, function, write)


def p_05_y_and_array_view(run):
    def function(x):
        y = F.exp(x)
        return y, y.array[1:3]

    def write(x, y, a):
        a[...] = 3

    _after_writing(run, function, write)


def p_05_reshape_of_argument(run):
    _after_writing(run, lambda x: F.reshape(x, (24,)), _double)


def p_05_slice_of_argument(run):
    _after_writing(run, lambda x: x[1:3], _double)


def p_05_slice_of_argument_other_way(run):
    def write(x, y):
        x.array[...] = 7

    _after_writing(run, lambda x: x[1:3], write)


def p_05_array_of_argument(run):
    def function(x):
        return F.exp(x), x.array[1:]

    def write(x, y, a):
        a[...] = 0.5

    _after_writing(run, function, write)


def p_05_array_itself(run):
    def function(x):
        return F.exp(x) * 2, x.array

    def write(x, y, a):
        a[...] = 0.5

    _after_writing(run, function, write)


def p_05_two_reshapes(run):
    def function(x):
        h = F.exp(x)
        return F.reshape(h, (6, 4)), F.transpose(h)

    _after_writing(run, function, _double)


def p_05_broadcast(run):
    def write(x, y):
        x.array[...] = 1

    _after_writing(run, lambda x: F.broadcast_to(x[:1], (3, 6)), write)


def p_05_copied(run):
    _after_writing(run, lambda x: F.copy(F.exp(x), -1)[1:], _double)


def p_05_cast(run):
    _after_writing(run, lambda x: F.cast(F.exp(x), np.float32)[1:], _double)


def p_05_identity(run):
    _after_writing(run, lambda x: F.identity(F.exp(x))[1:], _double)


def p_05_view_of_weights(run):
    class Tied(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.w = chainer.Parameter(np.ones((3, 4), "f"))

        @run.static
        def forward(self, x):
            return F.matmul(x, self.w, transb=True), F.transpose(self.w)

    model = Tied()
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    for _ in range(5):
        y, w = model(run.array(2, 4))
        model.cleargrads()
        F.sum(y * y).backward()
        optimizer.update()
        run.see("weights", w, model)


def p_05_stored_beside(run):
    class Keeps(chainer.Chain):
        @run.static
        def forward(self, x):
            self.h = F.tanh(x)
            return self.h[1:]

    model = Keeps()
    for _ in range(5):
        x = chainer.Variable(run.array(4, 6))
        y = model(x)
        y.array[...] = 0.25
        run.see("h", model.h)
        F.sum(model.h * model.h).backward()
        run.see("gradient", x.grad)


def p_05_stored_views(run):
    class Keeps(chainer.Chain):
        @run.static
        def forward(self, x):
            self.flat = F.reshape(x, (-1,))
            self.last = x[-1]
            return F.sum(x * x)

    model = Keeps()
    for _ in range(5):
        x = chainer.Variable(run.array(4, 6))
        model(x)
        x.array[...] += 1
        run.see("stored", model.flat, model.last)


def p_05_views_of_strided(run):
    static = run.static(lambda x: (F.exp(x), x[1:]))
    for _ in range(5):
        x = run.array(6, 4).T
        y, z = static(x)
        x[...] = 0.5
        run.see("results", y, z)


def p_05_kept_batches(run):
    """Views of arguments that are kept: each of its own batch."""
    static = run.static(lambda x: (x[1:], F.exp(x)[1:]))
    kept = []
    for _ in range(6):
        kept.append(static(chainer.Variable(run.array(3, 2))))
    for pair in kept:
        run.see("kept", *pair)


def p_05_no_backprop(run):
    def function(x):
        y = F.exp(x)
        return y, y[1:]

    static = run.static(function)
    for _ in range(5):
        with chainer.no_backprop_mode():
            y, z = static(run.array(4, 3))
        z.array[...] = 0
        run.see("results", y, z)


def _ctc(run, change, reduce="mean"):
    """Lengths or labels of the batch are overwritten before the backward."""

    def loss_of(x, t, n, m):
        return F.connectionist_temporal_classification(
            list(F.separate(x, 0)), t, 0, n, m, reduce=reduce
        )

    static = run.static(loss_of)
    rng = np.random.RandomState(11)
    for i in range(8):
        x = chainer.Variable(run.array(7, 3, 5))
        t = rng.randint(1, 5, (3, 3)).astype("i")
        n, m = rng.randint(3, 8, 3).astype("i"), rng.randint(1, 4, 3).astype("i")
        loss = static(x, t, n, m)
        run.see("loss", loss)
        change(rng, t, n, m, i)
        loss.grad = np.full_like(loss.array, 0.5)
        loss.backward()
        run.see("gradient", x.grad)


def p_05_ctc_longer_inputs(run):
    def change(rng, t, n, m, i):
        n[...] = 7

    _ctc(run, change)


def p_05_ctc_shorter_inputs(run):
    def change(rng, t, n, m, i):
        n[...] = np.maximum(n - 2, 1)

    _ctc(run, change, "no")


def p_05_ctc_other_labels(run):
    def change(rng, t, n, m, i):
        t[...] = rng.randint(1, 5, t.shape)

    _ctc(run, change)


def p_05_ctc_other_label_lengths(run):
    def change(rng, t, n, m, i):
        m[...] = rng.randint(0, 4, 3)

    _ctc(run, change, "no")


def p_05_ctc_next_batch(run):
    def change(rng, t, n, m, i):
        t[...] = rng.randint(1, 5, t.shape)
        n[...] = rng.randint(0, 9, 3)
        m[...] = rng.randint(0, 4, 3)

    _ctc(run, change)


def _replaced(run, function, replace, places=None, shape=(4, 6)):
    """``function(x)``, other arrays for its results, then the backward of the first."""
    static = run.static(function)
    for i in range(6):
        x = chainer.Variable(run.array(*shape))
        out = static(x)
        ys = out if isinstance(out, tuple) else (out,)
        for k in range(len(ys)) if places is None else places:
            ys[k].array = replace(ys[k].array)
        run.see("results", *ys, x)
        ys[0].grad = np.full_like(ys[0].array, i + 1)
        ys[0].backward()
        run.see("gradient", x.grad)


def p_19_doubled(run):
    _replaced(run, F.exp, lambda y: y * 2)


def p_19_clipped_gate(run):
    _replaced(run, lambda x: F.sigmoid(x * 3), lambda y: np.clip(y, 0.2, 0.8))


def p_19_hidden(run):
    def function(x):
        h = F.tanh(x)
        return F.sum(h * h), h

    _replaced(run, function, np.zeros_like, [1])


def p_19_column(run):
    def function(x):
        h = F.tanh(x)[:, 2]
        return F.sum(F.exp(h) * h), h

    _replaced(run, function, lambda h: h + 1, [1])


def p_19_turned(run):
    def function(x):
        h = F.transpose(F.tanh(x))
        return F.sum(h**3), h

    _replaced(run, function, lambda h: np.asfortranarray(h * 3), [1])


def p_19_not_its_views(run):
    """Who reads a view of the old array goes on reading that one."""

    def function(x):
        h = F.exp(x)
        z = h[1:]
        return F.sum(z * z), z, h

    _replaced(run, function, lambda h: -h, [2])


def p_19_view_alone(run):
    def function(x):
        h = x[1:]
        return F.sum(h * h * x[:-1]), h

    _replaced(run, function, lambda h: h * 0.5, [1])


def p_19_written_then_replaced(run):
    def function(x):
        h = F.exp(x)
        return F.sum(h * h), h[2:], h

    static = run.static(function)
    for _ in range(5):
        x = chainer.Variable(run.array(4, 3))
        loss, part, h = static(x)
        part.array[...] = 7
        h.array = h.array + 1
        part.array[...] = 9
        loss.backward()
        run.see("gradient", x.grad)


def p_19_stored(run):
    class Keeps(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l1 = chainer.links.Linear(3, 4)

        @run.static
        def forward(self, x):
            self.h = F.relu(self.l1(x))
            return F.sum(self.h * self.h)

    model = Keeps()
    for _ in range(5):
        loss = model(run.array(2, 3))
        model.h.array = np.where(model.h.array > 0.5, model.h.array, 0).astype("f")
        model.cleargrads()
        loss.backward()
        run.see("gradients", loss, model.l1.W.grad, model.l1.b.grad)


def p_19_nobody_holds_it(run):
    """The Variable is gone before the backward: the graph has its array."""
    static = run.static(lambda x: (lambda h: (F.sum(h * h), F.exp(h), h))(F.tanh(x)))

    def loss_of(x):
        loss, e, h = static(x)
        h.array = h.array[::-1]
        e.array = e.array * 0
        return loss + F.sum(e)

    for _ in range(5):
        x = chainer.Variable(run.array(4, 3))
        loss_of(x).backward()
        run.see("gradient", x.grad)


def p_19_retained_between(run):
    """The call is taken apart."""
    static = run.static(lambda x: (lambda h: (F.sum(h * h), h))(F.sigmoid(x)))
    for _ in range(5):
        x = chainer.Variable(run.array(4, 3))
        loss, h = static(x)
        h.array = h.array + 0.25
        loss.backward(retain_grad=True)
        run.see("gradients", x.grad, h.grad)


def p_19_function_of_the_user(run):
    class Cube(chainer.FunctionNode):
        def forward(self, inputs):
            self.retain_inputs((0,))
            self.retain_outputs((0,))
            return (inputs[0] ** 3,)

        def backward(self, indexes, grads):
            (x,), (y,) = self.get_retained_inputs(), self.get_retained_outputs()
            return (grads[0] * y / x * 3,)

    def function(x):
        h = F.exp(x)
        (y,) = Cube().apply((h,))
        return y, h

    _replaced(run, function, lambda a: a + 1)


def p_19_forgotten(run):
    def function(x):
        h = F.tanh(x)
        return F.sum(F.forget(lambda a: F.exp(a) * a, h)), h

    _replaced(run, function, lambda h: h * 2, [1])


def p_19_second_backward(run):
    static = run.static(lambda x: (lambda h: (F.sum(h * h), h))(F.sigmoid(x)))
    for _ in range(5):
        x = chainer.Variable(run.array(4, 3))
        loss, h = static(x)
        loss.backward()
        first = x.grad.copy()
        h.array = np.ones_like(h.array)
        x.cleargrad()
        loss.backward()
        run.see("gradients", first, x.grad)


def p_19_half(run):
    static = run.static(lambda x: (lambda h: (F.sum(h * h), h))(F.exp(x)))
    for _ in range(5):
        x = chainer.Variable(run.array(4, 3).astype(np.float16))
        loss, h = static(x)
        h.array = h.array / 2
        loss.backward()
        run.see("gradient", x.grad)
