"""Rows 8 to 11: small links that remember, as users write them; all that they hold is compared."""

from __future__ import annotations

import collections
import copy

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_all_near, gradients_of
from tests.harness.models import floats
from tests.tolerances import GRADIENTS, SUMS

X = [floats(5, 4)(np.random.RandomState(i)) for i in range(5)]
THREE, ROWS = np.zeros(3, "f"), np.zeros((4, 3), "f")
CASES: list = []


def case(**initial):
    """Add a function of ``(self, y)`` to the cases, with attributes that the link has before."""

    def note(function):
        CASES.append(pytest.param(function, initial, id=function.__name__))
        return function

    return note


class Remembering(chainer.Chain):
    def __init__(self, function, initial):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)
            self.l2 = L.Linear(3, 3)
        self.function = function
        for name, thing in initial.items():
            setattr(self, name, copy.deepcopy(thing))

    def forward(self, x):
        return self.function(self, self.l(x))


@case(total=np.zeros(3))
def running_sum_in_double(self, y):
    self.total *= 0.9
    self.total += y.array.mean(axis=0)
    return y * self.total.astype("f")


@case(seen=np.zeros((), "i"))
def counter_without_dimensions(self, y):
    self.seen += 1
    return y * self.seen.astype("f")


@case(trace=np.zeros((5, 3), "f"))
def eligibility_trace_that_is_clipped(self, y):
    self.trace *= 0.8
    self.trace += y.array
    np.clip(self.trace, -1, 1, out=self.trace)
    return y * self.trace


@case(alive=np.zeros(3, bool))
def mask_of_what_was_ever_active(self, y):
    self.alive |= y.array.max(0) > 0.5
    return F.where(np.broadcast_to(self.alive, y.shape), y, -y)


@case(first=THREE, second=THREE)
def two_buffers_in_turn(self, y):
    self.first[...] = y.array[0]
    self.first, self.second = self.second, self.first
    return y + self.first


@case(buffer=ROWS)
def buffer_that_moves_down(self, y):
    self.buffer[1:] = self.buffer[:-1].copy()
    self.buffer[0] = y.array[0]
    return y + self.buffer[-1]


@case(rows=np.zeros((2, 3), "f"))
def rows_unpacked_and_written(self, y):
    a, b = self.rows
    a += y.array[0]
    b -= a
    return y + b


@case(rows=np.zeros((2, 3), "f"))
def rows_exchanged_by_index(self, y):
    self.rows[[0, 1]] = self.rows[[1, 0]]
    self.rows[0] += y.array[0]
    return y + self.rows[1]


@case(queue=np.zeros((3, 5), "f"), at=0)
def queue_of_columns(self, y):
    scores = F.matmul(F.normalize(y), self.queue)
    self.queue[:, self.at] = y.array[0]
    self.at = (self.at + 1) % 5
    return scores


@case(centers=np.eye(3, dtype="f"), used=np.ones(3, "f"))
def codebook_with_moving_averages(self, y):
    nearest = ((y.array[:, None] - self.centers[None]) ** 2).sum(2).argmin(1)
    chosen = np.eye(3, dtype="f")[nearest]
    self.used *= 0.9
    self.used += 0.1 * chosen.sum(0)
    self.centers *= 0.9
    self.centers += 0.1 * chosen.T.dot(y.array) / self.used[:, None]
    return y + (F.embed_id(nearest, self.centers) - y.array)


@case(fast=np.zeros((3, 3), "f"))
def fast_weights(self, y):
    out = y + F.matmul(y, self.fast)
    self.fast += 0.01 * out.array.T.dot(y.array)
    return out


@case(before=np.zeros((5, 3), "f"))
def difference_to_the_call_before(self, y):
    change = y - self.before
    self.before[...] = y.array
    return change


@case(noise=np.zeros((5, 3), "f"))
def noise_that_has_memory(self, y):
    self.noise *= 0.9
    self.noise += np.random.normal(0, 0.1, (5, 3)).astype("f")
    return y + self.noise


@case(load=THREE)
def reset_where_it_is_large(self, y):
    self.load += abs(y.array).mean(0)
    self.load[self.load > 2] = 0
    return y * self.load


@case(index=np.array([0, 1, 2, 0, 1], "i"))
def index_that_moves_on(self, y):
    y = F.select_item(y, self.index)
    self.index[...] = (self.index + 1) % 3
    return y


@case()
def columns_that_are_normalized(self, y):
    self.l2.W.array /= np.linalg.norm(self.l2.W.array, axis=1, keepdims=True)
    return self.l2(y)


@case(losses=[], recent=collections.deque(maxlen=3))
def histories_of_two_kinds(self, y):
    self.losses.append(float(y.array.mean()))
    self.recent.append((y.array.max(), "largest"))
    return y


@case(log=collections.OrderedDict())
def log_by_name(self, y):
    self.log["mean"] = float(y.array.mean())
    self.log["output"] = y
    return y


@case(states=[])
def states_that_are_kept(self, y):
    y = F.tanh(y)
    self.states.append((y, y.array))
    return y


@case(items=[], held=THREE)
def copies_of_what_is_written(self, y):
    self.held += y.array[0]
    self.items.append(self.held.copy())
    self.held += 1
    self.items.append(self.held.sum())
    return y


@case(rows=[])
def every_row_of_a_loop(self, y):
    for row in y:
        self.rows.append(float(row.array[0]))
    return y


@case(best=-9.0, bad=0)
def patience(self, y):
    value = y.array.mean().item()
    self.best = max(self.best, value)
    self.bad += int((y.array < 0).sum())
    return y


@case(window=[])
def window_of_variables(self, y):
    self.window = [*self.window[-2:], y]
    return F.sum(F.stack(self.window), axis=0)


@case(saved=None)
def state_that_is_missing_at_first(self, y):
    if self.saved is not None:
        y = y + self.saved * 0.5
    self.saved = y.array
    return y


@case(temperature=2.0, steps=0, log=[])
def temperature_that_falls(self, y):
    self.temperature = self.temperature * 0.99 + 0.01
    self.steps += 1
    self.log.append(float(y.array.max()))
    return y / self.temperature


def flat(thing, name: str, found: dict) -> dict:
    """All that lies in a container, by place: arrays as they are, anything else with its class."""
    if isinstance(thing, chainer.Variable):
        thing = thing.array
    if isinstance(thing, dict):
        found[name] = np.array([type(thing).__name__, *map(str, thing)])
        for key, x in thing.items():
            flat(x, f"{name}[{key!r}]", found)
    elif isinstance(thing, (list, tuple, collections.deque)):
        found[name] = np.array([type(thing).__name__, str(len(thing))])
        for i, x in enumerate(thing):
            flat(x, f"{name}[{i}]", found)
    else:
        found[f"{name}: {type(thing).__name__}"] = np.array(thing)
    return found


def observed(model, names: list, x):
    y = model(x)
    model.cleargrads()
    F.sum(y * y).backward()
    found = flat(y.array, "result", {})
    for name in names:
        flat(getattr(model, name), name, found)
    for name, p in model.namedparams():
        found[name] = p.array.copy()
    return found, gradients_of(model), np.random.get_state()[1:3]


@pytest.mark.parametrize(("function", "initial"), CASES)
def test_what_a_link_remembers(function, initial):
    plain = Remembering(function, initial)
    static = sdbr.static_graph(copy.deepcopy(plain), on_dynamic="raise")
    held = {k: x for k, x in vars(static).items() if isinstance(x, np.ndarray)}
    found = []
    for model in (plain, static):
        np.random.seed(0)
        found.append([observed(model, [*initial], X[i % 5]) for i in range(12)])
    for i, (want, got) in enumerate(zip(*found, strict=True)):
        assert_all_near(got[0], want[0], SUMS, f"call {i}")
        assert_all_near(got[1], want[1], GRADIENTS, f"gradients of call {i}")
        assert got[2][1] == want[2][1]
        assert np.array_equal(got[2][0], want[2][0])
    if function is not two_buffers_in_turn:
        assert all(getattr(static, name) is x for name, x in held.items())
    statistics = static.schedule_manager.statistics
    assert statistics.replays >= 8
    assert statistics.traces + statistics.replays == 12
