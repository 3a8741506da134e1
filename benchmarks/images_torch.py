"""PyTorch's part of :mod:`benchmarks.images`: one turn of its ``DataLoader``.

Runs in an interpreter that need not have sdbr. Arguments are those of a turn, as JSON; seconds and
processor time of a batch go out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.images_data import Images
from benchmarks.images_turn import timed


def main() -> None:
    """One turn."""
    given = json.loads(sys.argv[1])
    loader = torch.utils.data.DataLoader(
        Images(given["n"], given["size"], given["decoder"]),
        given["batch"],
        shuffle=True,
        num_workers=given["workers"],
        prefetch_factor=2,
        persistent_workers=True,
        drop_last=True,
    )

    def batches():
        while True:
            yield from loader

    endless = batches()
    print(json.dumps(timed(lambda: next(endless), given["batches"])))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
