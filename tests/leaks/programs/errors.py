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


def p_18_a_check_whose_result_is_not_used(run):
    @run.static
    def solve(a, x):
        try:
            np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            return x * 0
        return F.matmul(a, x)

    for i in range(7):
        a = run.array(3, 3)
        a = a @ a.T + np.eye(3, dtype="f")
        run.see("y", solve(-a if i in (3, 5) else a, run.array(3, 2)))


def p_18_an_index_whose_result_is_not_used(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            try:
                self.embed(ids)
            except IndexError:
                return self.rest(self.embed.W[:4]) * 3
            return self.rest(self.embed.W[:4])

    play(run, Net())


def p_18_drawn_and_kept_before(run):
    class Net(Words):
        def __init__(self):
            super().__init__()
            self.n, self.h, self.log = 0, None, []
            with self.init_scope():
                self.norm = L.BatchNormalization(4)

        @run.static
        def forward(self, ids):
            self.n += 1
            h = self.norm(self.embed.W[:4])
            self.h = F.dropout(h, 0.3)
            self.log.append(F.sum(self.h))
            try:
                h = h * F.sum(self.embed(ids))
            except IndexError:
                self.n += 100
            self.log.append(F.sum(h))
            return h

    np.random.seed(3)
    model, weights = Net(), run.array(4, 4)
    optimizer = run.optimizer(chainer.optimizers.SGD(0.1).setup(model))
    for i in range(12):
        ids = run.labels(4, 5)
        if i in (4, 8):
            ids[1] = 77
        optimizer.update(lambda ids: F.sum(model(ids) * weights), ids)
        run.see("n", model.n, model.h, len(model.log), model.log[-1], model, np.random.rand())


def p_18_kept_in_place_before(run):
    """What a whole step may write over: an attribute that nobody else holds."""

    class Net(Words):
        def __init__(self):
            super().__init__()
            self.state = np.zeros((4, 3), "f")

        @run.static
        def forward(self, ids):
            h = F.tanh(self.rest(self.embed.W[:4]) + self.state)
            self.state = h.array
            try:
                return F.sum(h[:, 0] * F.sum(self.embed(ids)))
            except IndexError:
                return F.sum(h)

    model = Net()
    optimizer = run.optimizer(chainer.optimizers.SGD(0.01).setup(model))
    for i in range(9):
        ids = run.labels(4, 5)
        if i in (4, 6):
            ids[1] = 77
        optimizer.update(model, ids)
        run.see("state", model.state, model)


def p_18_drawn_by_python(run):
    """By a function without native code: more than the words of the generator moves."""

    class Net(Words):
        @run.static
        def forward(self, x):
            h = self.rest(x) + np.random.randn(3).astype("f")
            noise = F.gaussian(h, h * 0)
            try:
                return F.sum(np.linalg.inv(x.array)) * F.sum(noise)
            except np.linalg.LinAlgError:
                return F.sum(noise) * np.float32(np.random.randn())

    np.random.seed(4)
    model = Net()
    for i in range(8):
        x = run.array(4, 4)
        if i in (4, 6):
            x[1] = x[0]
            x[2] = x[0]
        run.see("y", model(chainer.Variable(x)), np.random.randn(3))


def p_18_raised_again_as_another(run):
    class Net(Words):
        @run.static
        def forward(self, ids):
            self.tries = getattr(self, "tries", 0) + 1
            try:
                h = self.embed(ids)
            except IndexError as error:
                self.failed = ids.max()
                raise KeyError(int(ids.max())) from error
            finally:
                self.last = ids
            return self.rest(h)

    model = Net()
    for i in range(8):
        ids = run.labels(4, 5)
        if i in (3, 5):
            ids[2] = 9
        try:
            run.see("y", model(ids))
        except KeyError as error:
            run.see("raised", repr(error), repr(error.__cause__), error.__cause__ is not None)
        run.see("left", model.tries, getattr(model, "failed", None), model.last)


def p_18_in_a_row(run):
    """So often that such calls run define-by-run after a while."""

    class Net(Words):
        @run.static
        def forward(self, ids):
            try:
                h = self.embed(ids)
            except IndexError:
                h = self.embed.W[:4]
            return self.rest(h)

    model = Net()
    for i in range(20):
        ids = run.labels(4, 5)
        if i >= 3:
            ids[1] = 77
        run.see("y", model(ids))


def p_18_a_value_decides_afterwards(run):
    """An error before a branch, and before a length that values decide about."""

    class Net(Words):
        def __init__(self):
            super().__init__()
            self.n = 0

        @run.static
        def forward(self, x, a):
            self.n += 1
            h = self.rest(x)
            try:
                h = h * np.linalg.inv(a)[0, 0]
            except np.linalg.LinAlgError:
                h = h * 3
            try:
                h = h + np.bincount(a.ravel().astype("i"), minlength=3)[:3].astype("f")
            except ValueError:
                self.n += 10
            return h * 2 if F.max(h).array > 0.3 else h

    model = Net()
    for i in range(14):
        a = np.eye(2, dtype="f") * (0 if i in (3, 7) else -1 if i in (5, 9) else 1)
        run.see("y", model(run.array(3, 4), a), model.n)
