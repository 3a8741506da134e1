"""Batches of decoded images: ``python -m benchmarks.images [--rounds N] [--peer-python PYTHON]``.

Chainer's ``MultiprocessIterator`` with ``concat_examples``, sdbr's (its lists with
``concat_examples``, and whole batches, as `sdbr.training.StandardUpdater` takes them), and
PyTorch's ``DataLoader``, in turns, with the same workers and the same code for an image. Nobody
does anything with the batches. *a batch*: until the next one is there, which is what the workers
can do; *parent*: processor time of the process that trains, all of its threads, which it takes from
the training; *all*: with that of the workers. The least of all turns counts, of each by itself.
*one process* has no workers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from sdbr.training import MultiprocessIterator  # noqa: E402

import numpy as np  # noqa: E402
from chainer import iterators  # noqa: E402
from chainer.dataset import concat_examples  # noqa: E402

from benchmarks.images_data import Images  # noqa: E402
from benchmarks.images_turn import timed  # noqa: E402

WAYS = ("one process", "Chainer", "sdbr, lists", "sdbr, whole", "PyTorch")


def turn(way: str, dataset: Images, given: dict[str, Any]) -> tuple[float, ...]:
    """What `timed` gives for one of ours."""
    batch, workers = given["batch"], given["workers"]
    take: Callable[[], Any]
    if way == "one process":
        iterator = iterators.SerialIterator(dataset, batch)
    elif way == "Chainer":
        iterator = iterators.MultiprocessIterator(dataset, batch, n_processes=workers)
    else:
        iterator = MultiprocessIterator(dataset, batch, n_processes=workers)
    if way == "sdbr, whole":

        def take() -> Any:
            return iterator._take().whole()

    else:

        def take() -> Any:
            return concat_examples(iterator.next())

    try:
        x, t = take()
        for i in (0, batch - 1):  # labels tell which image it is
            np.testing.assert_array_equal(x[i], dataset[int(t[i])][0])
        return timed(take, given["batches"])
    finally:
        iterator.finalize()


def torch_turn(python: str, given: dict[str, Any]) -> tuple[float, ...]:
    """The same of PyTorch."""
    script = Path(__file__).with_name("images_torch.py")
    done = subprocess.run(
        [python, str(script), json.dumps(given)], capture_output=True, text=True, check=True
    )
    return tuple(json.loads(done.stdout))


def main() -> None:
    """Print a table for each decoder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer-python", help="an interpreter that has PyTorch (and Pillow)")
    parser.add_argument("--decoders", nargs="+", default=["jpeg", "zlib", "none"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--n", type=int, default=256, help="images")
    options = vars(parser.parse_args())
    rounds, python = options.pop("rounds"), options.pop("peer_python")
    for decoder in options.pop("decoders"):
        given = {**options, "decoder": decoder}
        dataset = Images(given["n"], given["size"], decoder)
        ways = [way for way in WAYS if way != "PyTorch" or python]
        best = {way: (float("inf"),) * 3 for way in ways}
        for _ in range(rounds):
            for way in ways:
                is_ours = way != "PyTorch"
                found = turn(way, dataset, given) if is_ours else torch_turn(python, given)
                best[way] = tuple(map(min, best[way], found))
        print(f"{decoder}: batches of {given['batch']}, {given['size']} pixels, ms")
        print(f"{'':14}{'a batch':>9}{'parent':>9}{'all':>9}")
        for way, seconds in best.items():
            print(f"{way:14}" + "".join(f"{x * 1e3:9.2f}" for x in seconds))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
