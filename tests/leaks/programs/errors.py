"""Errors that the code of a call catches itself, and those that it lets pass."""

import contextlib

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np


class Words(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(5, 4)
            self.rest = L.Linear(4, 3)


def play(run, model, wild=(3, 5), n=5):
    for i in range(7):
        ids = run.labels(4, n)
        if i in wild:
            ids[1] = 77
        y = model(ids)
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("y", y, model)


def p_18_unknown_word(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            try:
                h = self.embed(ids)
            except IndexError:
                h = F.broadcast_to(self.embed.W[0], (len(ids), 4))
            return self.rest(h)

    play(run, Net())


def p_18_caught_further_out(run):
    class Net(Words):
        def look_up(self, ids):
            return F.tanh(self.embed(ids))

        @run.static
        def forward(self, ids):
            for attempt in (ids, np.zeros(len(ids), "i")):
                try:
                    with chainer.using_config("train", False):
                        return self.rest(self.look_up(attempt))
                except (KeyError, LookupError):
                    continue

    play(run, Net())


def p_18_suppressed(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            h = self.rest(self.embed.W[:4])
            with contextlib.suppress(IndexError):
                h = h + self.rest(self.embed(ids))
            return h

    play(run, Net())


def p_18_own_context_manager(run):
    @contextlib.contextmanager
    def forgiving(seen):
        try:
            yield
        except Exception as e:
            seen.append(type(e).__name__)

    class Net(Words):
        @run.static
        def forward(self, ids):
            h = self.rest(self.embed.W[:4])
            with forgiving([]):
                h = h * F.sum(self.embed(ids))
            return h

    play(run, Net())


def p_18_array_as_index(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            table = np.linspace(0, 1, 20).astype("f").reshape(5, 4)
            try:
                h = table[ids]
            except IndexError:
                h = table[:4]
            return self.rest(h)

    play(run, Net())


def p_18_labels_of_a_loss(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            y = self.rest(self.embed.W[:4])
            try:
                return F.softmax_cross_entropy(y, ids)
            except Exception:
                return F.sum(y) * 0

    play(run, Net(), n=3)


def p_18_wild_at_first(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            try:
                return self.rest(F.get_item(self.embed.W, ids))
            except IndexError as e:
                return self.rest(self.embed.W[:4]) * len(str(type(e)))

    play(run, Net(), wild=(0,))


def p_18_node_of_a_user(run):
    class Positive(chainer.FunctionNode):
        def forward(self, inputs):
            if (inputs[0] < -1).any():
                raise ValueError("negative")
            return (inputs[0] * 2,)

        def backward(self, indexes, gys):
            return (gys[0] * 2,)

    class Net(Words):
        @run.static
        def forward(self, x):
            h = self.rest(x)
            try:
                return Positive().apply((h,))[0]
            except ValueError:
                return h

    model = Net()
    for i in range(7):
        y = model(run.array(3, 4) * (5 if i == 4 else 0.1))
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("y", y, model)


def p_18_static_code_that_checks(run):
    @sdbr.static_code
    def check(inputs):
        if np.abs(inputs[0]).max() > 3:
            raise OverflowError("too large")

    class Net(Words):
        @run.static
        def forward(self, x):
            h = self.rest(x)
            try:
                check(inputs=[h.array])
            except ArithmeticError:
                return h * 0.5
            return h

    model = Net()
    for i in range(7):
        run.see("y", model(run.array(3, 4) * (50 if i == 4 else 0.1)))


def p_18_caught_by_the_caller(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            try:
                return self.rest(self.embed(ids))
            finally:
                str(ids.shape)

    model = Net()
    for i in range(7):
        ids = run.labels(4, 5)
        if i in (3, 5):
            ids[2] = -9
        try:
            run.see("y", model(ids))
        except IndexError as e:
            run.see("raised", type(e).__name__)


def p_18_other_errors_caught(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            try:
                h = self.embed(ids)
            except (ZeroDivisionError, KeyError):
                h = None
            try:
                h = F.relu(self.rest(h))
            except Exception as e:
                raise RuntimeError("wrong shape") from e
            with np.errstate(all="ignore"):
                return F.tanh(h)

    play(run, Net(), wild=())
