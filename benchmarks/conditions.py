"""How a run of the benchmarks measures."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from benchmarks.peers import of_device


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes
    ----------
    rounds : int
    seconds : float
        Of one turn of one peer.
    timeout : float
        Seconds after which an answer is given up on.
    cpus : tuple of int
        The cores that workers stay on; empty: any.
    threads : int
    peer_python : str or None
        The interpreter that has torch and jax.
    peers : tuple of str
    device : str
        ``'cpu'`` or ``'cuda'``.
    end : float
        On the clock of `time.monotonic`, when the run is to be over.
    """

    rounds: int = 15
    seconds: float = 0.1
    timeout: float = 600.0
    cpus: tuple[int, ...] = ()
    threads: int = 1
    peer_python: str | None = None
    peers: tuple[str, ...] = of_device("cpu")
    device: str = "cpu"
    end: float = math.inf

    def left(self) -> float:
        """Seconds that are left; not below 0."""
        return max(0.0, self.end - time.monotonic())

    def patience(self) -> float:
        """Seconds to wait for an answer now."""
        return max(1.0, min(self.timeout, self.left()))
