"""Images decoded from files in memory, for :mod:`benchmarks.images`; knows no framework."""

from __future__ import annotations

import io
import zlib
from typing import Any

import numpy as np

MEAN = np.array([123.7, 116.3, 103.5], np.float32).reshape(3, 1, 1)


def _pictures(n: int, size: int) -> list[np.ndarray]:
    """Something between noise and a plain colour, which compresses as photographs do."""
    rng = np.random.RandomState(0)
    found = []
    for _ in range(n):
        coarse = rng.randint(0, 256, (size // 8 + 1, size // 8 + 1, 3))
        fine = rng.randint(-12, 13, (size, size, 3))
        large = coarse.repeat(8, 0).repeat(8, 1)[:size, :size]
        found.append(np.clip(large + fine, 0, 255).astype(np.uint8))
    return found


class Images:
    """float32 images of 3 planes and their labels.

    Parameters
    ----------
    n, size : int
        How many, and of how many pixels a side.
    decoder : {'jpeg', 'zlib', 'none'}
        What an image is made from: a JPEG (through Pillow), bytes that zlib has compressed, or an
        array that is already there.
    """

    def __init__(self, n: int, size: int, decoder: str) -> None:
        self.size = size
        self.decoder = decoder
        self.files: list[Any] = []
        for picture in _pictures(n, size):
            if decoder == "jpeg":
                from PIL import Image

                file = io.BytesIO()
                Image.fromarray(picture).save(file, "JPEG", quality=90)
                self.files.append(file.getvalue())
            elif decoder == "zlib":
                self.files.append(zlib.compress(picture.tobytes(), 1))
            else:
                self.files.append(picture.transpose(2, 0, 1).astype(np.float32) - MEAN)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[np.ndarray, np.int32]:
        file = self.files[i]
        if self.decoder == "none":
            return file, np.int32(i % 1000)
        if self.decoder == "jpeg":
            from PIL import Image

            picture = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
        else:
            picture = np.frombuffer(zlib.decompress(file), np.uint8)
            picture = picture.reshape(self.size, self.size, 3)
        return picture.transpose(2, 0, 1).astype(np.float32) - MEAN, np.int32(i % 1000)
