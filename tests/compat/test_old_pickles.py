"""Pickles of static links and optimizers that name modules as they were called before a move."""

from __future__ import annotations

import pickle
from pathlib import Path

import sdbr

import chainer
import numpy as np
import old_pickles

#: ``pickle.dumps(old_pickles.trained(), 2)`` of the tree before ``sdbr.call`` was a package.
BYTES = Path(__file__).with_name("before_the_move.pickle").read_bytes()


def test_names_of_before():
    assert b"csdbr.manager\n_nothing" in BYTES
    assert b"csdbr.static_graph\n_Managers" in BYTES
    assert b"csdbr.static_optimizer\n_remake" in BYTES


def test_they_load_and_go_on():
    net, other, optimizer = pickle.loads(BYTES)

    again, same, trained = old_pickles.trained()
    x = np.ones((2, 2), "f")
    for _ in range(3):
        optimizer.update(net, x)
        trained.update(again, x)
        np.testing.assert_array_equal(other(x).array, same(x).array)

    assert isinstance(optimizer, chainer.optimizers.MomentumSGD)
    assert optimizer.t == trained.t == 5
    for p, q in zip(net.params(), again.params(), strict=True):
        np.testing.assert_array_equal(p.array, q.array)
        np.testing.assert_array_equal(p.update_rule.state["v"], q.update_rule.state["v"])
    assert net.schedule_manager.statistics.steps == 2
    assert other.schedule_manager.statistics.replays == 2


def test_what_was_moved_is_found_where_users_looked_for_it():
    from sdbr.errors import NotStaticError

    assert NotStaticError is sdbr.NotStaticError
    error = pickle.loads(pickle.dumps(NotStaticError("why")))
    assert type(error) is NotStaticError
