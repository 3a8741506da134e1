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
    devices: tuple[str, ...] = ("cpu",)

    def make(self, case: Case, device: str = "cpu") -> Runner:
        """Return the runner of a case; called in the worker process only."""
        module = importlib.import_module(f"benchmarks.peers.{self.module}")
        return module.make(case, self.style, device)


REFERENCE = "chainer"
BOTH, GPU = ("cpu", "cuda"), ("cuda",)
#: The peer that the others are held against.
OWN = {"cpu": "sdbr-cython", "cuda": "sdbr-cuda"}
PEERS = {
    peer.name: peer
    for peer in (
        Peer("chainer", "chainer_peer", "plain", "chainer", True, BOTH),
        Peer("chainer.static_graph", "chainer_peer", "chainer.static_graph", "chainer", True),
        Peer("sdbr-cython", "chainer_peer", "sdbr:cython", "sdbr", True),
        Peer("sdbr-own", "chainer_peer", "sdbr:cython:own", "sdbr", True),
        Peer("sdbr-numpy", "chainer_peer", "sdbr:numpy", "sdbr", True),
        Peer("sdbr-cuda", "chainer_peer", "sdbr:cuda", "sdbr", True, GPU),
        Peer("sdbr-uncaptured", "chainer_peer", "sdbr:cuda:uncaptured", "sdbr", True, GPU),
        Peer("torch", "torch_peer", "eager", "torch", False, BOTH),
        Peer("torch-graph", "torch_peer", "graph", "torch", False, GPU),
        Peer("torch.compile", "torch_peer", "compiled", "torch", False, BOTH),
        Peer("jax", "jax_peer", "jit", "jax", False, BOTH),
        Peer("jax-scan", "jax_peer", "scan", "jax", False),
        Peer("c", "native", "", "scipy", True),
    )
}


def of_device(device: str) -> tuple[str, ...]:
    """Names of the peers that run there."""
    return tuple(name for name, peer in PEERS.items() if device in peer.devices)
