"""Exceptions, wrong arguments, NaNs; threads and reentrancy."""

import contextlib
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer.utils import type_check

from tests.leaks.programs._kit import Embedding, Net, Recurrent

ATTEMPTS = []


class Failing(Exception):
    pass


class Plain(Net):
    def forward(self, x):
        return self.net(x)


#: What users catch.
KINDS = (ValueError, IndexError, KeyError, ArithmeticError, RuntimeError, AttributeError)


def tried(run, name, call, *args, **kwargs):
    """The result, or the type of the exception."""
    try:
        result = call(*args, **kwargs)
    except Exception as e:
        run.see(name, *[isinstance(e, kind) for kind in KINDS])
        return None
    run.see(name, result)
    return result


def calls(body, arguments, net=Net, **attributes):
    """A static forward called with each of `arguments(run)`."""

    def program(run):
        class Model(net):
            forward = run.static(body)

        model = Model()
        for name, value in attributes.items():
            setattr(model, name, value)
        for args in arguments(run):
            y = tried(run, "y", model, *args)
            model.cleargrads()
            if isinstance(y, chainer.Variable) and y.requires_grad:
                F.sum(y * y).backward()
            run.see("model", model)

    return program


def _good(run, k=6):
    return [(run.array(4, 4),) for _ in range(k)]


def _good_and_bad(run):
    return [
        (run.array(4, 4),), (run.array(4, 4),), (run.array(4, 5),), (run.array(4, 4),),
        (run.array(4, 4),), (run.array(4),), (run.array(3, 4),), (run.array(4, 4),),
    ]  # fmt: skip


def _odd_types(run):
    return [
        (run.array(4, 4),), (run.array(4, 4),), (run.array(4, 4).astype("d"),), (run.array(4, 4),),
        (None,), (run.array(4, 4).astype("e"),), (run.array(4, 4).astype("i"),), (run.array(4, 4),),
    ]  # fmt: skip


def _arguments(run):
    return [(run.array(4, 4),), (), (run.array(4, 4), 1), (run.array(4, 4),), (run.array(4, 4),)]


def _empty(run):
    return [(run.array(n, 4),) for n in (4, 4, 0, 4, 0, 0, 4)]


def _nans(run):
    x = [run.array(4, 4) for _ in range(6)]
    x[2][0, 0] = np.nan
    x[4][:, 1] = np.inf
    return [(v,) for v in x]


def _fails_on_negative_sum(self, x):
    y = self.net(x)
    if x.sum() < 0:
        raise Failing
    return y


def _fails_every_third(self, x):
    ATTEMPTS.append(1)
    if len(ATTEMPTS) % 3 == 0:
        raise Failing
    return self.net(x)


def _fails_first(self, x):
    if not ATTEMPTS:
        ATTEMPTS.append(1)
        raise Failing
    return self.net(x)


def _fails_second(self, x):
    ATTEMPTS.append(1)
    if len(ATTEMPTS) == 2:
        raise Failing
    return self.net(x)


def _caught(self, x):
    try:
        if x[0, 0] > 0:
            raise Failing
        return self.net(x)
    except Failing:
        return -self.net(x)


def _caught_index(self, x):
    try:
        return self.net(x) * [1.0, 2.0][int(x[0].argmax())]
    except IndexError:
        return self.net(x) * 5


def _caught_shape(self, x):
    try:
        return F.matmul(self.net(x), x)
    except type_check.InvalidType:
        return self.net(x)


def _caught_linalg(self, x):
    try:
        inverse = np.linalg.inv(np.where(x > 0.3, x, 0))
    except np.linalg.LinAlgError:
        inverse = np.zeros((4, 4), "f")
    return self.net(inverse.clip(-2, 2))


def _caught_zero(self, x):
    try:
        k = 1 / int(x[0, 0])
    except ZeroDivisionError:
        k = 0.5
    return self.net(x) * k


def _caught_floating(self, x):
    try:
        with np.errstate(invalid="raise"):
            s = np.sqrt(x[0, 0])
    except FloatingPointError:
        s = np.float32(0.1)
    return self.net(x) * s


def _caught_cholesky(self, x):
    try:
        c = np.linalg.cholesky(x[:4] + x[:4].T + 2 * np.eye(4, dtype="f"))
    except np.linalg.LinAlgError:
        c = np.eye(4, dtype="f")
    return self.net(c.astype("f"))


def _caught_assertion(self, x):
    try:
        assert (x < 2).all()
        return self.net(x)
    except AssertionError:
        return self.net(x.clip(-2, 2))


def _caught_attribute(self, x):
    try:
        k = self.factor
    except AttributeError:
        k = 1.0
        self.factor = 2.0
    return self.net(x) * k


def _caught_key(self, x):
    try:
        return self.net(x) * {0: 1.0, 1: 2.0}[int(x[0].argmax())]
    except KeyError:
        return self.net(x) * 7


def _caught_stop(self, x):
    try:
        k = next(i for i, v in enumerate(x[0]) if v > 1)
    except StopIteration:
        k = -1
    return self.net(x) * k


def _suppressed(self, x):
    y = self.net(x)
    with contextlib.suppress(ValueError):
        y = y * list(x[0].argsort()).index(5)
    return y


def _warned_once(self, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            scale = np.log(x[0, 0])
        except RuntimeWarning:
            scale = np.float32(0.25)
    return self.net(x) * scale


def _finally_resets(self, x):
    self.busy = 1
    try:
        return self.net(x)
    finally:
        self.busy = 0


def _half_done_attribute(self, x):
    self.h = self.l1(x)
    if float(self.h.array.max()) > 2.0:
        raise Failing
    return self.l2(self.h)


def _retry(self, x):
    for k in range(3):
        try:
            if np.random.rand() < 0.4:
                raise Failing
            return self.net(x) * (k + 1)
        except Failing:
            continue
    return self.net(x)


def _nan_branch(self, x):
    y = self.net(x)
    return F.where(np.isnan(y.array), np.zeros_like(y.array), y)


def _nan_check_raises(self, x):
    y = self.net(x)
    if not np.isfinite(y.array).all():
        raise FloatingPointError
    return y


def _generator_exit(self, x):
    def rows():
        try:
            yield from x
        finally:
            ATTEMPTS.append(len(x))

    for r in rows():
        if r[0] > 0:
            break
    return self.net(r[None])


for _name, _body, _args in (
    ("shapes", lambda self, x: self.net(x), _good_and_bad),
    ("dtypes", lambda self, x: self.net(x), _odd_types),
    ("arguments", lambda self, x: self.net(x), _arguments),
    ("empty_batches", lambda self, x: self.net(x), _empty),
    ("empty_mean", lambda self, x: F.mean(self.net(x), axis=0), _empty),
    ("empty_max", lambda self, x: F.max(self.net(x), axis=0), _empty),
    ("empty_concat", lambda self, x: F.concat([self.net(x), self.net(x)], axis=0), _empty),
    ("nans", lambda self, x: self.net(x), _nans),
    ("nans_relu", lambda self, x: self.l2(F.relu(self.l1(x))), _nans),
    ("nans_max", lambda self, x: F.max(self.net(x), axis=1), _nans),
    ("nans_softmax", lambda self, x: F.softmax(self.net(x)), _nans),
    ("nans_argmax", lambda self, x: F.argmax(self.l1(x), axis=1).array, _nans),
    ("nans_clip", lambda self, x: F.clip(self.l1(x), -1.0, 1.0), _nans),
    ("nans_sort", lambda self, x: self.net(np.sort(x, axis=0)), _nans),
    ("nan_branch", _nan_branch, _nans),
    ("nan_check_raises", _nan_check_raises, _nans),
    ("fails_on_negative_sum", _fails_on_negative_sum, _good),
    ("fails_every_third", _fails_every_third, _good),
    ("fails_first", _fails_first, _good),
    ("fails_second", _fails_second, _good),
    ("caught", _caught, _good),
    ("caught_index", _caught_index, _good),
    ("caught_shape", _caught_shape, _good),
    ("caught_linalg", _caught_linalg, _good),
    ("caught_zero", _caught_zero, _good),
    ("caught_floating", _caught_floating, _good),
    ("caught_cholesky", _caught_cholesky, _good),
    ("caught_assertion", _caught_assertion, _good),
    ("caught_attribute", _caught_attribute, _good),
    ("caught_key", _caught_key, _good),
    ("caught_stop", _caught_stop, _good),
    ("suppressed", _suppressed, _good),
    ("warned_once", _warned_once, _good),
    ("finally_resets", _finally_resets, _good),
    (
        "half_done_attribute",
        _half_done_attribute,
        lambda run: [(run.array(4, 4) * k,) for k in (1, 1, 3, 1, 1, 4, 1)],
    ),
    ("retry", _retry, _good),
    ("generator_exit", _generator_exit, _good),
):
    globals()[f"p_{_name}"] = calls(_body, _args)


def labels(run, rounds, bad, body, make=Net):
    """A loss given labels, some of which are wrong."""

    class Model(make):
        def forward(self, x, t):
            return body(self, x, t)

    model = run.static(Model())
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)
    for i in range(rounds):
        t = run.labels(4, 3)
        if i in bad:
            t[1] = bad[i]
        try:
            run.observe(model, rule.update, model, run.array(4, 4), t)
        except Exception as e:
            run.see("raised", type(e).__name__)
        run.see("model", model, rule.t)


def p_label_too_large(run):
    labels(run, 8, {3: 7, 6: 3}, lambda self, x, t: F.sum(F.select_item(self.net(x), t)))


def p_label_negative(run):
    labels(run, 8, {3: -1, 6: -2}, lambda self, x, t: F.sum(F.select_item(self.net(x), t)))


def p_label_ignored(run):
    labels(run, 8, {3: -1, 6: -1}, lambda self, x, t: F.softmax_cross_entropy(self.net(x), t))


def p_label_all_ignored(run):
    def body(self, x, t):
        return F.softmax_cross_entropy(self.net(x), np.where(x[:, 0] > 9, t, -1).astype("i"))

    labels(run, 5, {}, body)


def p_label_indexing(run):
    labels(run, 8, {3: 5, 6: -3}, lambda self, x, t: F.sum(self.net(x)[np.arange(4), t]))


def p_label_eye(run):
    labels(run, 8, {3: 5}, lambda self, x, t: F.sum(self.net(x) * np.eye(3, dtype="f")[t]))


def p_label_accuracy_ignored(run):
    def body(self, x, t):
        y = self.net(x)
        chainer.report({"acc": F.accuracy(y, t, ignore_label=-1)}, self)
        return F.mean(y)

    labels(run, 8, {2: -1, 5: 5}, body)


def p_label_onehot_in_place(run):
    def body(self, x, t):
        q = np.zeros((4, 3), "f")
        q[range(4), t] = 1
        return F.mean_squared_error(self.net(x), q)

    labels(run, 8, {3: 4}, body)


def p_word_out_of_range(run):
    class Model(Embedding):
        @run.static
        def forward(self, x):
            return self.out(F.sum(self.embed(x), axis=1))

    model = Model()
    for i in range(8):
        x = run.labels((3, 4), 10)
        x[0, 0] = {3: 10, 4: -1, 6: -2}.get(i, x[0, 0])
        tried(run, "y", model, x)


def p_state_of_another_batch_size(run):
    class Model(Recurrent):
        @run.static
        def forward(self, x):
            return self.out(self.lstm(x))

    model = Model()
    for n in (3, 3, 2, 3, 4, 3):
        tried(run, "y", model, run.array(n, 4))
        run.see("state", model.lstm.h)


def p_error_in_static_then_plain(run):
    model = run.static(Plain())
    for i in range(6):
        tried(run, "y", model, run.array(4, 4 if i != 3 else 3))
        with chainer.using_config("use_static_graph", i % 2 == 0):
            tried(run, "y", model, run.array(4, 4))


def p_error_in_hook(run):
    model = run.static(Plain())
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)

    def hook(opt):
        if opt.t == 3:
            raise Failing

    hook.name, hook.call_for_each_param, hook.timing = "fails", False, "pre"
    rule.add_hook(hook)
    for _ in range(7):
        tried(run, "update", rule.update, lambda: F.sum(model(run.array(4, 4)) ** 2))
        run.see("model", model, rule.t)


def p_error_in_lossfun(run):
    model = run.static(Plain())
    rule = run.optimizer(chainer.optimizers.Adam()).setup(model)
    for i in range(6):

        def loss(i=i):
            y = F.sum(model(run.array(4, 4)) ** 2)
            if i == 3:
                raise Failing
            return y

        tried(run, "update", rule.update, loss)
        run.see("model", model, rule.t)


def p_nonfinite_loss_stops_by_hand(run):
    model = run.static(L.Classifier(Plain()))
    rule = run.optimizer(chainer.optimizers.SGD()).setup(model)
    for i in range(7):
        x = run.array(4, 4)
        x[0, 0] = np.nan if i == 4 else x[0, 0]
        rule.update(model, x, run.labels(4, 3))
        run.see("model", model, model.loss, model.accuracy)
        if not np.isfinite(model.loss.array):
            break


def p_backward_twice(run):
    model = run.static(Plain())
    for i in range(5):
        y = F.sum(model(run.array(4, 4)) ** 2)
        model.cleargrads()
        y.backward()
        if i % 2:
            tried(run, "again", y.backward)
        run.see("model", model)


def p_backward_of_non_scalar(run):
    model = run.static(Plain())
    for i in range(5):
        y = model(run.array(4, 4))
        model.cleargrads()
        tried(run, "backward", y.backward)
        if i % 2:
            y.grad = np.ones_like(y.array)
            y.backward()
        run.see("model", model)


def p_grad_of_wrong_shape(run):
    model = run.static(Plain())
    for i in range(5):
        y = model(run.array(4, 4))
        try:
            y.grad = np.ones((4, 3) if i % 2 else (3, 4), "f")
            y.backward()
        except Exception as e:
            run.see("raised", type(e).__name__)
        run.see("model", model)


def p_read_only_argument(run):
    model = run.static(Plain())
    for i in range(6):
        x = run.array(4, 4)
        x.flags.writeable = i % 2 == 0
        run.see("y", model(x))


def p_odd_memory(run):
    model = run.static(Plain())
    big = run.array(8, 8)
    for x in (
        big[:4, :4],
        big[::2, ::2],
        big[4:, 4:].T,
        np.asfortranarray(big[:4, :4]),
        big[3::-1, :4],
        big[:4, :4],
    ):
        big += 0.1
        y = model(x)
        model.cleargrads()
        F.sum(y**2).backward()
        run.see("y", y, model)


def p_threads_share_a_model(run):
    model = run.static(Plain())
    xs = [run.array(4, 4) for _ in range(12)]
    with ThreadPoolExecutor(3) as pool:
        ys = list(pool.map(lambda x: model(x).array, xs))
    run.see("ys", ys)


def p_threads_one_model_each(run):
    models = [run.static(Plain()) for _ in range(3)]
    xs = [[run.array(4, 4) for _ in range(4)] for _ in models]
    results = [None] * 3

    def work(k):
        for x in xs[k]:
            y = models[k](x)
            models[k].cleargrads()
            F.sum(y * y).backward()
        results[k] = [p.grad.copy() for p in models[k].params()]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    run.see("gradients", results)


def p_threads_configuration(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            return self.net(x) * (1 if chainer.config.train else 2)

    model = Model()
    x = run.array(4, 4)
    results = {}

    def work(train):
        with chainer.using_config("train", train):
            results[train] = [model(x).array for _ in range(4)]

    for train in (True, False):
        t = threading.Thread(target=work, args=(train,))
        t.start()
        t.join(30)
    run.see("results", results[True], results[False])


def p_thread_local_in_forward(run):
    local = threading.local()
    local.scale = 1.0

    @run.static
    def call(x):
        return F.relu(x) * local.scale

    for i in range(6):
        local.scale = 1.0 + i // 2
        run.see("y", call(run.array(3, 2)))


def p_thread_name_in_forward(run):
    @run.static
    def call(x):
        return F.relu(x) * len(threading.current_thread().name)

    x = run.array(3, 2)
    out = []
    for name in ("a", "a", "bbb", "bbb", "a"):
        t = threading.Thread(target=lambda: out.append(call(x)), name=name)
        t.start()
        t.join(30)
    run.see("y", out)


def p_started_in_forward(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            out = []
            t = threading.Thread(target=lambda: out.append(float(x.sum())))
            t.start()
            t.join(30)
            return self.net(x) * out[0]

    model = Model()
    for _ in range(5):
        run.see("y", model(run.array(4, 4)))


def p_pool_in_forward(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            with ThreadPoolExecutor(2) as pool:
                parts = list(pool.map(lambda r: r * 2, [x[:2], x[2:]]))
            return self.net(np.concatenate(parts))

    model = Model()
    for _ in range(5):
        run.see("y", model(run.array(4, 4)))


def p_reentrant(run):
    class Model(Net):
        @run.static
        def forward(self, x, depth):
            y = self.net(x)
            return y + self.forward(x * 0.5, depth - 1) if depth else y

    model = Model()
    for depth in (0, 1, 2, 2, 1, 0, 2):
        y = model(run.array(3, 4), depth)
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("y", y, model)


def p_function_calls_itself(run):
    @run.static
    def power(x, n):
        return x if n == 0 else F.tanh(power(x, n - 1) * 2)

    for n in (1, 3, 3, 2, 3):
        run.see("y", power(run.array(2, 3), n))


def p_two_models_call_each_other(run):
    class A(Net):
        @run.static
        def forward(self, x, other=None):
            return self.net(x) + (other(x) if other is not None else 0)

    a, b = A(), A()
    for _ in range(5):
        tried(run, "y", lambda: a.net(run.array(3, 4)) + b(run.array(3, 4)))
        tried(run, "y", b, run.array(3, 4))


def p_keyboard_interrupt_inside(run):
    class Model(Net):
        @run.static
        def forward(self, x):
            ATTEMPTS.append(1)
            if len(ATTEMPTS) == 3:
                raise KeyboardInterrupt
            return self.net(x)

    model = Model()
    for _ in range(6):
        try:
            run.see("y", model(run.array(3, 4)))
        except KeyboardInterrupt:
            run.see("interrupted", len(ATTEMPTS))
