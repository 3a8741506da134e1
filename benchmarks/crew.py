"""The workers of a run: on a CPU new ones for each case; on a GPU they go from case to case.

A framework takes seconds to be imported and to get hold of a GPU, longer than most cases. What they
compile for a case there, they compile at the same time.
"""

from __future__ import annotations

from typing import Any

from benchmarks.conditions import Settings
from benchmarks.peers import PEERS, Peer
from benchmarks.pool import Worker, WorkerError, interpreter


class Crew:
    """Workers by the name of their peer.

    Parameters
    ----------
    settings : Settings
    log : file
        Takes what workers print.
    """

    def __init__(self, settings: Settings, log: Any):
        self.settings, self.log = settings, log
        self.workers: dict[str, Worker] = {}
        self.stays = settings.device == "cuda"

    def take_up(self, case: str, outcome: Any, say: Any) -> dict[str, Worker]:
        """Go on to a case; the workers of the peers that take part in it."""
        ready: dict[str, Worker] = {}
        asked = []
        for name in self.settings.peers:
            say(f"{case}: starting {name}")
            if self._ask(PEERS[name], case, outcome):
                asked.append(name)
                if not self.stays:
                    self._hear(name, ready, outcome)
        for name in asked if self.stays else ():
            self._hear(name, ready, outcome)
        return ready

    def _ask(self, peer: Peer, case: str, outcome: Any) -> bool:
        python = interpreter(peer, self.settings.peer_python)
        if python is None:
            outcome.left_out[peer.name] = "no --peer-python"
            return False
        try:
            if peer.name in self.workers:
                self.workers[peer.name].send(do="load", case=case)
            else:
                self.workers[peer.name] = self._worker(peer, case, python)
        except OSError as error:
            outcome.left_out[peer.name] = f"{python}: {error.strerror}"
            return False
        except WorkerError as error:
            self.drop(peer.name)
            outcome.left_out[peer.name] = str(error)
            return False
        return True

    def _worker(self, peer: Peer, case: str, python: str) -> Worker:
        given = self.settings
        return Worker(
            peer, case, python, given.cpus, given.threads, given.patience(), self.log,
            device=given.device,
        )  # fmt: skip

    def _hear(self, name: str, ready: dict[str, Worker], outcome: Any) -> None:
        worker = self.workers[name]
        worker.timeout = self.settings.patience()
        try:
            answer = worker.receive()
        except WorkerError as error:
            outcome.left_out[name] = str(error)
            self.drop(name)
            return
        if "left_out" in answer:
            outcome.left_out[name] = answer["left_out"]
            if not self.stays:
                self.drop(name)
            return
        outcome.versions[name] = answer["versions"]
        ready[name] = worker

    def drop(self, name: str) -> None:
        """End a worker: the next case has a new one."""
        self.workers.pop(name).close(0.0 if self.stays else 5.0)

    def end_of_case(self) -> None:
        """End those that are for one case."""
        if not self.stays:
            self.close()

    def close(self) -> None:
        """End all."""
        for name in list(self.workers):
            self.workers.pop(name).close()
