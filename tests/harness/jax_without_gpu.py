"""The peer of the benchmarks that is JAX's, as on a GPU, without one.

Run by an interpreter that has jax: prints, per case, what the peer computes as on a CPU and as on a
GPU, and what it took there, as JSON.
"""

from __future__ import annotations

import json
import sys

import jax

from benchmarks.worker import Server


def main() -> None:
    jax.default_backend = lambda: "gpu"
    found = {}
    servers = Server("jax"), Server("jax", "cuda")
    for name in sys.argv[1:]:
        checked, times = [], {}
        for server in servers:
            assert "ready" in server.load(name)
            checked.append(server.serve({"do": "check", "part": "step"})["values"])
        for what in ("time", "latency", "processor"):
            times[what] = servers[1].serve({"do": what, "part": "step", "n": 3})
        found[name] = {"checked": checked, "times": times}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
