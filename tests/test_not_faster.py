"""docs/not-faster.md: sdbr gives each message literally, where the page says."""

import gc
import pathlib
import re
import warnings
from unittest import mock

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "not-faster.md"
ROWS = re.findall(r"^\|[^|]+\| ([^|]+) \|[^|]+\|$", PAGE.read_text(encoding="utf-8"), re.M)
#: The first piece of code of each row, its message.
MESSAGES = [found[1] for row in ROWS if (found := re.match(r"`([^`]+)`", row))]
#: What is no message but another place to look.
OTHER = {"print(times)", "outside", "backend numpy"}

X = np.random.RandomState(0).rand(8, 20).astype("f")
T = np.arange(8, dtype="i")


def network():
    return chainer.Sequential(L.Linear(20, 32), F.relu, L.Linear(32, 10))


def trained(target, optimizer=True):
    adam = chainer.optimizers.Adam()
    return (sdbr.static_optimizer(adam) if optimizer else adam).setup(target)


def classifier(**options):
    return sdbr.static_graph(L.Classifier(network()), **options)


def by_hand(seed=None, retain=False, change=False, backwards=1, calls=1):
    model = classifier()
    of = trained(model)
    for _ in range(6):
        model.cleargrads()
        for _ in range(backwards):
            loss = model(X, T)
            for _ in range(calls - 1):
                loss = loss + model(X, T)
            if seed is not None:
                loss.grad = np.full_like(loss.array, seed)
            loss.backward(retain_grad=retain)
        if change:
            for param in model.params():
                param.grad *= 0.5
        of.update()
    return model


def two_optimizers(alike):
    one, two = L.Linear(20, 8), L.Linear(8, 10)
    both = [trained(one), trained(two)]
    if not alike:
        both[1].alpha = 0.5

    @sdbr.static_graph
    def loss_of(x, t):
        return F.softmax_cross_entropy(two(F.relu(one(x))), t)

    for _ in range(6):
        loss = loss_of(X, T)
        one.cleargrads()
        two.cleargrads()
        loss.backward()
        for each in both:
            each.update()
    return loss_of


def updated(lossfun=None, optimizer=True, model=None):
    model = model or classifier()
    lossfun = model if lossfun is None else lossfun(model)
    of = trained(model, optimizer)
    for _ in range(6):
        of.update(lossfun, X, T)
    return model


def a_function(model):
    def loss_of(x, t):
        return model(x, t)

    return loss_of


def link_around():
    inner = sdbr.static_graph(network())
    updated(model=L.Classifier(inner))
    return inner


def outside():
    net = sdbr.static_graph(network())
    of = trained(net)
    for _ in range(6):
        loss = F.softmax_cross_entropy(net(X), T)
        net.cleargrads()
        loss.backward()
        of.update()
    return net


def held():
    model, losses = classifier(), []
    of = trained(model)
    for _ in range(8):
        of.update(model, X, T)
        losses.append(model.loss)
    return model


class Scheduled(L.Classifier):
    """Sets the rate of its own step."""

    def forward(self, x, t):
        """The loss."""
        self.optimizers[0].alpha = 0.01 / len(x)
        return super().forward(x, t)


def rated():
    model = sdbr.static_graph(Scheduled(L.Linear(20, 10)))
    model.optimizers = (trained(model),)
    for i in range(6):
        model.optimizers[0].alpha = 0.1 * i
        model.optimizers[0].update(model, X, T)
    return model


def printing(x):
    print(F.max(x).array)
    return x * 2


def as_text(x):
    return x / float(f"{F.max(x).array:.1f}")


class Counter:
    n = 0


def counting(x):
    Counter.n += 1
    return x * len(f"{Counter.n}")


def factor(x, n):
    return F.sum(x[:n] * n)


def called(function, *calls):
    decorated = sdbr.static_graph(function)
    for args in calls:
        decorated(X, *args)
    return decorated


def many_ways():
    @sdbr.static_graph
    def several(x):
        return x * len("x" * int(x[0, 0]))

    for n in [n for n in range(70) for _ in range(30)]:
        several(np.full((1, 2), n, "f"))
    return several


def adversaries():
    """Two losses of one graph, as in a GAN's updater."""
    first, second = (sdbr.static_graph(L.Linear(20, 20)) for _ in range(2))
    of_first, of_second = trained(first), trained(second)
    for _ in range(8):
        y = second(first(X))
        of_second.update(lambda y=y: F.mean(y))
        of_first.update(lambda y=y: F.mean(-y))
    return first


def sizes(numbers, **options):
    model = classifier(**options)
    of = trained(model)
    for n in numbers:
        of.update(model, np.zeros((n, 20), "f"), np.zeros(n, "i"))
    return model


def arguments():
    return called(lambda x, other: x * 2, (object(),))


def many_objects():
    class One:
        @sdbr.static_graph
        def doubled(self, x):
            return x * 2

    for _ in range(12):
        One().doubled(X)
    return One.doubled


def hooked():
    model = updated()
    with chainer.function_hooks.TimerHook():
        return str(sdbr.explain(model))


def unwatched():
    with mock.patch("sdbr.call.trace_call.obstacle", lambda: "a debugger is at work"):
        return called(lambda x: x * 2, (), ())


def switched_off():
    with chainer.using_config("use_static_graph", False):
        return updated()


def once():
    model = classifier()
    trained(model).update(model, X, T)
    return model


#: By message, what leads to it.
PROGRAMS = {
    "by hand (cleargrads, backward, update)": by_hand,
    "update with a lambda": lambda: updated(lambda m: lambda x, t: m(x, t)),
    "update with a function that is not static": lambda: updated(a_function),
    "update with a link that is not static": link_around,
    "the loss outside of the static call": outside,
    "a loss of 2 static calls": lambda: by_hand(calls=2),
    "update of a plain optimizer": lambda: updated(optimizer=False),
    "one backward, 2 optimizers": lambda: two_optimizers(True),
    "a whole step has one optimizer": lambda: two_optimizers(False),
    "several losses go back through one call": adversaries,
    "a whole step has one backward; these are compiled one by one": lambda: by_hand(backwards=2),
    "the program holds the graphs of steps after they are made, as by losses.append(loss)": held,
    "the call sets what the update reads, as a rate": rated,
    "gradients are changed between backward and update": lambda: by_hand(change=True),
    "gradients in between are retained": lambda: by_hand(retain=True),
    "the gradient of the loss is set before the backward": lambda: by_hand(seed=2),
    "print(...) would run only while the call is traced": lambda: called(printing, (), ()),
    "a value left NumPy through str(), round() or hash()": lambda: called(as_text, (), ()),
    "which the call reads, is changed by each call": lambda: called(counting, *[()] * 9),
    "which cannot be traced; expected a Variable, an array, None, a number, a string, or lists, "
    "tuples and dicts of these": arguments,
    "its objects are called too seldom": many_objects,
    "a call now would run define-by-run: a function hook is active": hooked,
    "calls cannot be traced, and run define-by-run": unwatched,
    "chainer.config.use_static_graph is False": switched_off,
    "five of the last eight calls were traced anew because this part of the key keeps changing: "
    "argument 0: float32[8,20] -> float32[9,20]": lambda: sizes(range(2, 20)),
    "this part of the key keeps changing: argument 1: 6 -> 7": lambda: called(
        factor, *[(n,) for n in range(12)]
    ),
    "there are max_schedules=2 schedules, and calls come that need more of them": lambda: sizes(
        [2, 3, 4, 5] * 4, max_schedules=2
    ),
    "calls with the same arguments go more than 64 ways": many_ways,
    "no schedule serves it, and tracing such calls has been of no use": lambda: sizes(range(2, 20)),
    "nothing static here: decorate a method with sdbr.static_graph, or wrap the link": network,
    "whole step: none so far; the first call is traced, those after it may be whole": once,
    "Python op FFT: NumPy's FFT": lambda: called(lambda x: F.fft((x, x * 0))[0], (), (), ()),
}


def test_every_message_is_tried():
    assert {m for m in MESSAGES if m not in OTHER} - set(PROGRAMS) == set()
    assert len(MESSAGES) > 20


@pytest.mark.parametrize("message", PROGRAMS)
def test_message(message, capsys):
    assert f"`{message}`" in PAGE.read_text(encoding="utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = PROGRAMS[message]()
    gc.collect()  # local optimizers are gone: what was seen of their steps is told all the same
    report = made if isinstance(made, str) else str(sdbr.explain(made))
    facts = "" if isinstance(made, str) else str(sdbr.explain(made).to_dict())
    said = " ".join([report, facts, *(str(w.message) for w in caught)])
    assert message in re.sub(r"\s+", " ", said)
