"""PyTorch's CUDA graphs without a GPU, for the peer of the benchmarks that records whole steps.

Run by an interpreter that has torch: prints, per case, the losses of the first steps by the peer
that is eager and by the one that records, as JSON. A graph calls its function again on the inputs
that it was recorded with, and writes its output there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import types

import torch

from benchmarks import cases
from benchmarks.peers import torch_peer


class Graph:
    """In the place of `torch.cuda.CUDAGraph`."""

    def replay(self) -> None:
        recorded = self.recorded
        output = recorded.function(*recorded.inputs)
        with torch.no_grad():
            recorded.output.copy_(output)


class Recorded(torch_peer.Recorded):
    """Knows what it has recorded."""

    def __init__(self, function, example):
        self.function = function
        super().__init__(function, example)
        self.graph.recorded = self


def main() -> None:
    stream = types.SimpleNamespace(wait_stream=lambda other: None)
    torch.cuda.Stream = torch.cuda.current_stream = lambda: stream
    torch.cuda.stream = torch.cuda.graph = lambda _: contextlib.nullcontext()
    torch.cuda.CUDAGraph = Graph
    torch_peer.Recorded = Recorded
    found = {}
    for name in sys.argv[1:]:
        case = dataclasses.replace(cases.load(name), check_steps=3, ring=4)
        eager, graph = (torch_peer.make(case, style) for style in ("eager", "graph"))
        for runner in (eager, graph):
            runner.prepare()
        found[name] = [runner.check("step") for runner in (eager, graph)]
        # Steps go on with the next batch, whether they are waited for together or one by one.
        graph.run("step", 1)
        graph.run("step", 2)
        graph.wait()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
