"""The ways of running a case that are compared, and where each of them lives."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from benchmarks.cases.base import Case
from benchmarks.peers.base import Runner


@dataclass(frozen=True)
class Peer:
    """One line of the tables. ``needs`` is imported to see whether the peer is there."""

    name: str
    module: str
    style: str
    needs: str
    own: bool  # in the environment of sdbr, not in the peers' own

    def make(self, case: Case) -> Runner:
        """Return the runner of a case; called in the worker process only."""
        return importlib.import_module(f"benchmarks.peers.{self.module}").make(case, self.style)


REFERENCE = "chainer"
PEERS = {
    peer.name: peer
    for peer in (
        Peer("chainer", "chainer_peer", "plain", "chainer", True),
        Peer("chainer.static_graph", "chainer_peer", "chainer.static_graph", "chainer", True),
        Peer("sdbr-cython", "chainer_peer", "sdbr:cython", "sdbr", True),
        Peer("sdbr-own", "chainer_peer", "sdbr:cython:own", "sdbr", True),
        Peer("sdbr-numpy", "chainer_peer", "sdbr:numpy", "sdbr", True),
        Peer("torch", "torch_peer", "eager", "torch", False),
        Peer("torch.compile", "torch_peer", "compiled", "torch", False),
        Peer("jax", "jax_peer", "jit", "jax", False),
        Peer("jax-scan", "jax_peer", "scan", "jax", False),
        Peer("c", "native", "", "scipy", True),
    )
}
