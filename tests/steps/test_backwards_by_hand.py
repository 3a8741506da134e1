"""Backwards by hand, one replayed call each: each sees what define-by-run sees."""

from __future__ import annotations

import warnings

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import optimizers

from tests.harness.backwards import ROUNDS, Net, check, programs
from tests.harness.nodes import Names

program, PROGRAMS = programs()


# --- hooks --------------------------------------------------------------------------------------
@program(0)
def a_hook_around_the_backward(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        with Names() as hook:
            loss.backward()
        way.see(loss, hook.seen[:2])


@program()
def a_hook_around_the_second_backward(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        a, b = F.sum(net(way.x()) ** 2), F.sum(net(way.x()))
        net.cleargrads()
        a.backward()
        with Names() as hook:
            b.backward()
        way.see(a, b, len(hook.seen) > 0)


@program(0)
def a_hook_of_a_function_outside(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) * 2)
        net.cleargrads()
        hook = Names()
        loss.creator.add_hook(hook)
        loss.backward()
        way.see(loss, hook.seen)


@program(2)
def a_hook_of_a_function_outside_is_taken_off(way):
    net = way.static(Net())
    for i in range(ROUNDS):
        loss = F.sum(net(way.x()) * 2)
        net.cleargrads()
        hook = Names()
        loss.creator.add_hook(hook)
        if i % 2:
            loss.creator.delete_hook("names")
        loss.backward()
        way.see(loss, hook.seen)


@program(0)
def a_hook_of_one_function_while_the_loss_is_made(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y = net(way.x())
        net.cleargrads()
        with Names() as hook:
            loss = F.mean(F.relu(y) * y)
            F.sum(y)
            loss.backward()
        way.see(loss, hook.seen[:8])


# --- gradients that are retained, or given ------------------------------------------------------
@program()
def retained_through_a_loss_outside(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y = net(way.x())
        z = F.relu(y)
        loss = F.sum(z * z)
        net.cleargrads()
        loss.backward(retain_grad=True)
        way.see(loss, z, y, net.h)


@program()
def retained_twice(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y = net(way.x())
        loss = F.sum(y * y)
        net.cleargrads()
        loss.backward(retain_grad=True)
        way.see(loss, y, net.h)
        loss.backward(retain_grad=True)
        way.see(loss, y, net.h)


@program()
def retained_then_not(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y = net(way.x())
        a, b = F.sum(y * y), F.sum(F.sin(y))
        net.cleargrads()
        a.backward(retain_grad=True)
        way.see(a, y, net.h)
        b.backward()
        way.see(b, y, net.h)


@program()
def given_to_a_result(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y = net(way.x())
        net.cleargrads()
        mine = way.x(5, 3)
        before = mine.copy()
        y.grad = mine
        y.backward()
        way.see(y, bool((mine == before).all()))


@program()
def given_as_a_variable(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y = net(way.x())
        net.cleargrads()
        y.grad_var = mine = chainer.Variable(way.x(5, 3), name="mine")
        y.backward(retain_grad=True)
        way.see(y, mine, y.grad_var is mine)


@program(14)
def given_in_other_orders(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        for g in way.x(3, 5).T, way.x(5, 6)[:, ::2], np.broadcast_to(way.x(3), (5, 3)):
            y = net(way.x())
            net.cleargrads()
            y.grad = g
            y.backward()
            way.see(y, g.copy())


@program(8)
def given_to_several_at_once(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y, z = net(way.x()), net(way.x())
        net.cleargrads()
        gy, gz = chainer.Variable(way.x(5, 3)), chainer.Variable(way.x(5, 3))
        chainer.backward([y, z], [gy, gz])
        way.see(y, z, gy, gz)


@program()
def one_of_several_has_none(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y, z = net(way.x()), net(way.x())
        net.cleargrads()
        y.grad = way.x(5, 3)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", RuntimeWarning)
            chainer.backward([y, z])
        way.see(y, z, [w.category.__name__ for w in told])


@program()
def given_to_what_lies_between(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        y = net(way.x())
        net.cleargrads()
        net.h.grad = way.x(5, 6)
        loss = F.sum(y * y)
        loss.backward()
        way.see(loss, net.h)
        net.h.grad = way.x(5, 6)
        net.h.backward()
        way.see(net.h)


# --- several backwards --------------------------------------------------------------------------
@program(8)
def twice_through_one_loss(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        loss.backward()
        held = net.l1.W.grad
        before = held.copy()
        loss.backward()
        way.see(loss, bool((held == before).all()), held is net.l1.W.grad)


@program()
def never_cleared(way):
    net = way.static(Net())
    net.cleargrads()
    for _ in range(ROUNDS):
        F.mean(net(way.x())).backward()
        way.see()


@program(9)
def onto_arrays_of_the_user(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        mine = [np.full_like(p.array, 0.5) for p in net.params()]
        for p, g in zip(net.params(), mine, strict=True):
            p.grad = g
        for _ in range(2):
            F.sum(net(way.x())).backward()
        way.see(*mine)


@program()
def only_some_are_cleared(way):
    net = way.static(Net())
    for _ in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.l1.W.grad = None
        net.l2.cleargrads()
        if net.l1.b._grad_valid:
            net.l1.b.zerograd() if net.l1.b.grad is not None else net.l1.b.cleargrad()
        else:
            net.l1.b.cleargrad()
        loss.backward()
        way.see(loss)


@program()
def cleared_gradients_are_made_again(way):
    net = way.static(Net())
    optimizer = optimizers.SGD().setup(net)
    for i in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        if i % 2:
            optimizer.reallocate_cleared_grads()
        loss.backward()
        way.see(loss)
        optimizer.update()
        way.see()


@program()
def scaled_with_a_number_that_changes(way):
    net = way.static(Net())
    for i in range(ROUNDS):
        loss = F.sum(net(way.x()) ** 2)
        net.cleargrads()
        loss.backward(loss_scale=(None, 2, 4.0, np.float32(3))[i % 4])
        way.see(loss)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_around_a_backward(name):
    check(name, *PROGRAMS[name])
