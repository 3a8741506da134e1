"""Ranks that fail or differ, started by ``mpiexec``: rank 1 does what the argument says."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from sys import exit as leave

import sdbr

import chainer
import chainermn
import numpy as np
from chainer import links as L

communicator = chainermn.create_communicator("naive")
how = sys.argv[1]
is_it = communicator.rank == 1
model = L.Classifier(L.Linear(4, 4 if how == "shape" and is_it else 3))
if how == "more" and is_it:
    model.add_link("more", L.Linear(1, 1))
if how in ("shape", "more", "sends"):
    # Whoever calls these has sent something.
    communicator.bcast_data = communicator.multi_node_mean_grad = None
if how == "sends":
    chainer.config.sdbr_overlap = is_it
sdbr.static_graph(model)
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), communicator)
sdbr.static_optimizer(optimizer, validate_every=3).setup(model)


def fail() -> None:
    if how in ("error", "thread"):
        raise KeyError("no such thing")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "exit":
        sys.exit(3)
    if how == "raised exit":
        raise SystemExit(4)
    if how == "imported exit":
        leave("no more data")
    if how == "ends well":
        sys.exit(0)
    if how == "exit at once":
        os._exit(3)
    if how == "caught":
        with contextlib.suppress(SystemExit):
            sys.exit(3)
    if how == "value":
        model.predictor.W.array[0, 0] += 1
    if how == "count":
        optimizer.actual_optimizer.t += 1


def train() -> None:
    for i in range(8):
        if is_it and i == 4:
            if how == "stops":
                return
            fail()
        optimizer.update(model, np.ones((5, 4), "f"), np.zeros(5, "i"))


if how == "thread":
    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    thread.join(200)
    assert not thread.is_alive(), "the thread that trains waits for ever"
else:
    train()

if how == "caught and left":
    try:
        sys.exit(3)
    except SystemExit as error:
        caught = error  # goes once nothing runs any more
        raise SystemExit from error
if how == "stays" and not is_it:
    # Rank 1 has ended meanwhile, as it may.
    for _ in range(20_000):
        if optimizer._sdbr_presence.left:
            break
        threading.Event().wait(0.01)
    assert optimizer._sdbr_presence.left, "rank 1 has not left within 200 s"
