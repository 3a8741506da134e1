"""Backwards by hand through graphs, histories, errors and modes: as define-by-run."""

from __future__ import annotations

import contextlib
import copy

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.backwards import ROUNDS, Net, check, of, programs
from tests.harness.comparison import copy_of
from tests.harness.nodes import Moody
from tests.harness.threads import in_threads

program, PROGRAMS = programs()


# --- graphs of several calls --------------------------------------------------------------------
@program()
def one_argument_twice(way):
    f = way.static(lambda a, b: F.sum(F.tanh(a) * b))
    for _ in range(ROUNDS):
        x = chainer.Variable(way.x())
        loss = f(x, x)
        loss.backward()
        way.see(x, loss)


@program(8)
def a_diamond(way):
    f, g = way.static(lambda a: F.tanh(a)), way.static(lambda a: a * a)
    for _ in range(ROUNDS):
        x = chainer.Variable(way.x())
        h = F.sin(x)
        loss = F.sum(f(h) * g(h) + h)
        loss.backward()
        way.see(x, h, loss)


@program(8)
def between_two_calls(way):
    net, head = way.static(Net(4, 6)), way.static(Net(6, 2))
    for _ in range(ROUNDS):
        h = F.dropout(F.relu(net(way.x())), 0.4)
        loss = F.sum(head(h) ** 2)
        net.cleargrads()
        head.cleargrads()
        loss.backward()
        way.see(loss, h)


@program(12)
def a_call_of_its_own_result(way):
    net = way.static(Net(4, 4))
    for _ in range(ROUNDS):
        y = net(net(net(way.x())))
        net.cleargrads()
        F.sum(y * y).backward()
        way.see(y)


@program()
def a_penalty_of_the_weights(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        for p in net.params():
            loss += 0.1 * F.sum(p**2)
        net.cleargrads()
        loss.backward()
        way.see(loss)


@program()
def only_a_part_of_a_result(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        a, _, c = F.split_axis(net(way.x()), 3, axis=1)
        loss = F.sum(a * c[::-1])
        net.cleargrads()
        loss.backward()
        way.see(loss, a, c)


@program()
def links_outside_with_state(way):
    net = way.static(Net())
    bn = L.BatchNormalization(3)
    way.links.append(bn)
    for _ in range(ROUNDS):
        loss = F.softmax_cross_entropy(bn(F.tanh(net(way.x()))), way.t())
        net.cleargrads()
        bn.cleargrads()
        loss.backward()
        way.see(loss, bn.avg_mean, bn.avg_var)


@program()
def results_that_are_gone(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y = net(way.x())
        loss = F.sum(F.exp(y))
        net.h = None
        del y
        net.cleargrads()
        loss.backward()
        way.see(loss)


@program()
def arguments_that_are_gone(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        x = chainer.Variable(way.x())
        loss = F.sum(net(x * 2))
        del x
        net.cleargrads()
        loss.backward()
        way.see(loss)


@program()
def arguments_with_and_without_gradients(way):
    f = way.static(lambda a, b, c: F.sum(a * b + c))
    for _ in range(ROUNDS):
        a, b = chainer.Variable(way.x()), chainer.Variable(way.x(), requires_grad=False)
        loss = f(a, b, way.x())
        loss.backward()
        way.see(a, b, loss)


@program()
def numbers_that_are_no_gradients(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        t = way.t()
        y = net(way.x())
        loss = F.softmax_cross_entropy(y, t, reduce="no")
        best = F.argmax(y, axis=1)
        net.cleargrads()
        F.sum(F.where(best.array == t, loss, loss * 2)).backward()
        way.see(loss, best, F.accuracy(y, t))


# --- second derivatives, histories that are cut --------------------------------------------------
@program(5)
def a_penalty_of_the_gradient(way):
    net = way.static(Net(4, 1), enable_double_backprop=True)
    for _ in range(ROUNDS):
        x = chainer.Variable(way.x())
        y = net(x)
        (gx,) = chainer.grad([y], [x], enable_double_backprop=True)
        loss = F.sum(y) + F.mean((F.sqrt(F.sum(gx**2, axis=1)) - 1) ** 2)
        net.cleargrads()
        loss.backward()
        way.see(loss, x, gx)
        again = F.sum(net(x) ** 2)
        again.backward()
        way.see(again, x)


@program(0)
def back_with_a_history(way):
    net = way.static(Net(), enable_double_backprop=True)
    for _ in range(ROUNDS):
        x = chainer.Variable(way.x())
        loss = F.sum(net(x) ** 2)
        net.cleargrads()
        loss.backward(enable_double_backprop=True)
        g = x.grad_var
        way.seen.append(of(g))
        x.cleargrad()
        net.cleargrads()
        F.sum(g * g).backward(enable_double_backprop=True)
        way.seen.append([copy_of(p.grad) for _, p in sorted(net.namedparams())])


@program()
def asked_before(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        x = chainer.Variable(way.x())
        loss = F.sum(net(x) ** 2)
        (gx,) = chainer.grad([loss], [x])
        net.cleargrads()
        loss.backward()
        way.see(gx, x, loss)


@program(6)
def a_result_is_cut_off(way):
    net = way.static(Net())
    for i in range(ROUNDS):
        y, z = net(way.x()), net(way.x())
        if i % 2:
            y.unchain()
        net.cleargrads()
        F.sum(y * z).backward()
        way.see(y, z, y.creator is None)


@program(0)
def all_is_cut_off(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        loss.unchain_backward()
        loss.backward()
        way.see(loss, loss.creator is None)


@program(12)
def cut_after_each_second_call(way):
    net = way.static(Net(4, 4))
    y = chainer.Variable(way.x())
    for i in range(2 * ROUNDS):
        y = net(F.tanh(y))
        loss = F.sum(y * y)
        net.cleargrads()
        loss.backward()
        if i % 2:
            loss.unchain_backward()
        way.see(loss, y)


@program(2)
def what_lies_between_is_cut_off(way):
    net = way.static(Net())
    for i in range(ROUNDS):
        y = net(way.x())
        if i % 2:
            net.h.unchain()
        net.cleargrads()
        F.sum(y * y).backward()
        way.see(y, net.h)


# --- errors in the middle -----------------------------------------------------------------------
@program(0)
def a_function_outside_fails_going_back(way):
    net = way.static(Net())
    for i in range(ROUNDS):
        y = net(way.x())
        net.cleargrads()
        loss = F.sum(F.sin(Moody().apply((y,))[0]))
        Moody.mood = "backward" if i % 2 else "good"
        try:
            loss.backward()
            told = None
        except ZeroDivisionError as error:
            told = str(error)
        finally:
            Moody.mood = "good"
        way.see(loss, told)
        loss.backward()
        way.see(loss)


@program()
def a_function_outside_fails_before(way):
    net = way.static(Net())
    for i in range(ROUNDS):
        y = net(way.x())
        net.cleargrads()
        try:
            loss = F.sum(y @ np.zeros((2 + i % 2, 3), "f"))
        except chainer.utils.type_check.InvalidType as error:
            way.see(str(error).split("\n")[0])
            loss = F.sum(y)
        loss.backward()
        way.see(loss)


@program(8)
def a_gradient_of_another_dtype_lies_there(way):
    net = way.static(Net())
    for i in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        if i % 2:
            net.l2.b._grad = np.ones(3, "d")
        told = None
        try:
            loss.backward()
        except (TypeError, chainer.utils.type_check.InvalidType) as error:
            told = type(error).__name__
        way.seen += [told, chainer.config.enable_backprop]
        net.cleargrads()
        loss.backward()
        way.see(loss)


@program()
def another_array_before_the_backward(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        net.l2.W.array = net.l2.W.array * 2
        loss.backward()
        way.see(loss)


# --- modes, threads, copies ---------------------------------------------------------------------
def _with(options, **more):
    def run(way):
        net = way.static(Net())
        with contextlib.ExitStack() as stack:
            for name, value in options.items():
                stack.enter_context(chainer.using_config(name, value))
            for _ in range(ROUNDS):
                y = net(way.x())
                loss = F.sum(F.relu(y) * y)
                net.cleargrads()
                loss.backward(**more)
                way.see(loss, y)

    return run


for _name, _run, *_options in (
    ("audits_are_always_on", _with({"sdbr_audit": 1e9}), 0),
    ("debug_mode", _with({"debug": True}), 0, False),
    ("lazy_sums", _with({"lazy_grad_sum": True})),
    ("without_checks_of_types", _with({"type_check": False})),
    ("testing", _with({"train": False}, retain_grad=True)),
):
    _run.__name__ = _name
    program(*_options)(_run)


@program(2)
def debug_mode_for_each_second_backward(way):
    net = way.static(Net())
    for i in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        with chainer.using_config("debug", bool(i % 2)):
            loss.backward()
        way.see(loss)


@program()
def back_while_histories_are_off(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        with chainer.no_backprop_mode():
            loss.backward()
            inside = net(way.x())
            way.see(chainer.config.enable_backprop, inside.creator is None)
        way.see(loss)


@program(None)
def a_net_for_each_thread(way):
    nets = [way.static(Net()) for _ in range(3)]
    xs = [[way.x() for _ in range(ROUNDS * 4)] for _ in nets]

    def work(net, mine):
        for x in mine:
            net.cleargrads()
            F.sum(F.tanh(net(x)) ** 2).backward()

    in_threads(len(nets), lambda i: work(nets[i], xs[i]))
    way.see()


@program()
def back_in_another_thread(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        in_threads(1, lambda _, loss=loss: loss.backward())
        way.see(loss)


@program()
def copies_in_between(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        loss.backward()
        twin = copy.deepcopy(net)
        way.see(*[of(p) for _, p in sorted(twin.namedparams())])
        twin.cleargrads()
        way.see(loss)


@program()
def classes_of_variables_of_the_user(way):
    class Own(chainer.Variable):
        pass

    net = way.static(Net())
    for _ in range(ROUNDS):
        x = Own(way.x())
        loss = F.sum(net(x * 1) ** 2)
        net.cleargrads()
        loss.backward()
        way.see(loss, x, type(x.grad_var).__name__)


@program()
def double_precision(way):
    f = way.static(lambda a, w: F.tanh(F.matmul(a, w)))
    w = chainer.Parameter(way.x(4, 3).astype("d"))
    w.cleargrad()
    for _ in range(ROUNDS):
        loss = F.sum(f(way.x().astype("d"), w) ** 2)
        loss.backward()
        way.see(w, loss)


@program(8)
def a_parameter_of_two_links(way):
    a, b = Net(4, 4), Net(4, 4)
    del b.l1
    with b.init_scope():
        b.l1 = a.l1
    a, b = way.static(a), way.static(b)
    for _ in range(ROUNDS):
        a.cleargrads()
        b.cleargrads()
        F.sum(b(a(way.x())) ** 2).backward()
        way.see()


@program()
def updated_by_hand(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        loss.backward()
        for p in net.params():
            p.grad[...] = np.clip(p.grad, -1, 1)
            p.array -= 0.01 * p.grad
        way.see(loss)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_around_a_backward(name):
    check(name, *PROGRAMS[name])
