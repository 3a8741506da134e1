"""The digit data that the demo trains on: scikit-learn's bundled digits, or MNIST in IDX files."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from sdbr.base.advice import install
from sdbr.base.errors import SdbrError

import numpy as np

IMAGE_MAGIC = 2051
LABEL_MAGIC = 2049
N_CLASSES = 10


class DatasetError(SdbrError):
    """The data is missing, damaged or does not fit together; the message is one line."""


@dataclass(frozen=True)
class Dataset:
    """Images as float32 rows in [0, 1], labels as int32, in a training and a test part."""

    name: str
    x_train: np.ndarray
    t_train: np.ndarray
    x_test: np.ndarray
    t_test: np.ndarray

    @property
    def n_features(self) -> int:
        """Pixels of one image."""
        return self.x_train.shape[1]


def load(name: str, data_dir: str | None = None) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : {'digits', 'mnist'}
    data_dir : str or None
        The directory of the IDX files; needed for 'mnist', refused for 'digits'.

    Raises
    ------
    DatasetError
        If the data is missing or damaged, or the arguments do not fit together.
    """
    if name == "digits":
        if data_dir is not None:
            raise DatasetError(
                "--data-dir belongs to --dataset mnist; digits come with scikit-learn"
            )
        return load_digits()
    if name == "mnist":
        if data_dir is None:
            raise DatasetError("--dataset mnist needs --data-dir DIR with the IDX files")
        return load_mnist(data_dir)
    raise DatasetError(f"unknown data set {name!r}; choose from digits, mnist")


def load_digits(test_fraction: float = 0.2) -> Dataset:
    """Load scikit-learn's 1,797 digits of 8x8 pixels; nothing is downloaded."""
    try:
        from sklearn.datasets import load_digits as bundled
    except ImportError:
        raise DatasetError(f"the digits need scikit-learn: {install('demo')}") from None
    x, t = bundled(return_X_y=True)
    return _split("digits", (x / 16).astype(np.float32), t.astype(np.int32), test_fraction)


def load_mnist(data_dir: str | Path, test_fraction: float = 0.1) -> Dataset:
    """Load MNIST from IDX files, plain or gzip-compressed.

    With only one of the two pairs of files (``train-*`` or ``t10k-*``) in the directory, its images
    are shuffled with a fixed seed and split into a training and a test part.

    Raises
    ------
    DatasetError
        Naming the file, what was expected and what was found.
    """
    directory = Path(data_dir)
    if not directory.is_dir():
        raise DatasetError(f"{directory}: no such directory")
    parts = {}
    for prefix in ("train", "t10k"):
        images = _find(directory, prefix, "images", 3)
        labels = _find(directory, prefix, "labels", 1)
        if (images is None) != (labels is None):
            present, absent = ("images", "labels") if labels is None else ("labels", "images")
            raise DatasetError(
                f"{directory}: has the {prefix} {present} but not the {prefix} {absent}"
            )
        if images is not None and labels is not None:
            parts[prefix] = _read_pair(images, labels)
    if not parts:
        raise DatasetError(
            f"{directory}: holds no MNIST files (train-images-idx3-ubyte[.gz], "
            "train-labels-idx1-ubyte[.gz], and the same for t10k)"
        )
    if len(parts) == 1:
        ((prefix, (x, t)),) = parts.items()
        return _split(f"mnist ({prefix} files, split)", x, t, test_fraction)
    (x_train, t_train), (x_test, t_test) = parts["train"], parts["t10k"]
    if x_train.shape[1] != x_test.shape[1]:
        raise DatasetError(
            f"{directory}: the train images have {x_train.shape[1]} pixels, "
            f"the t10k images {x_test.shape[1]}"
        )
    return Dataset("mnist", x_train, t_train, x_test, t_test)


def read_idx(path: str | Path, magic: int) -> np.ndarray:
    """Read one IDX file of unsigned bytes, plain or .gz.

    Parameters
    ----------
    path : path of the file; the content decides whether it is compressed
    magic : int
        The expected first four bytes: 2051 for images (three dimensions), 2049 for labels (one).

    Returns
    -------
    numpy.ndarray of uint8, shape as in the header

    Raises
    ------
    DatasetError
        If the file cannot be read, has another magic number, or more or fewer bytes than its
        header says.
    """
    path = Path(path)
    raw = _read_bytes(path)
    if len(raw) < 4:
        raise DatasetError(f"{path}: truncated, {len(raw)} bytes are too few for an IDX header")
    found = int.from_bytes(raw[:4], "big")
    if found != magic:
        raise DatasetError(f"{path}: wrong magic number {found}, expected {magic}")
    n_dims = magic & 0xFF
    start = 4 + 4 * n_dims
    if len(raw) < start:
        raise DatasetError(f"{path}: truncated, {len(raw)} bytes are too few for an IDX header")
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", n_dims, offset=4))
    expected = start
    size = 1
    for n in shape:  # Python integers: a damaged header must not overflow
        size *= n
    expected += size
    if len(raw) < expected:
        raise DatasetError(f"{path}: truncated, {len(raw)} of {expected} bytes")
    if len(raw) > expected:
        raise DatasetError(f"{path}: {len(raw)} bytes, but the header {shape} says {expected}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _read_bytes(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or error}") from None
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        return gzip.decompress(raw)
    except EOFError:
        raise DatasetError(f"{path}: truncated gzip file") from None
    except (OSError, zlib.error) as error:
        raise DatasetError(f"{path}: damaged gzip file ({error})") from None


def _find(directory: Path, prefix: str, kind: str, n_dims: int) -> Path | None:
    for separator in "-.":  # both spellings are in circulation
        for suffix in ("", ".gz"):
            path = directory / f"{prefix}-{kind}{separator}idx{n_dims}-ubyte{suffix}"
            if path.is_file():
                return path
    return None


def _read_pair(images: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    pixels = read_idx(images, IMAGE_MAGIC)
    classes = read_idx(labels, LABEL_MAGIC)
    if len(pixels) != len(classes):
        raise DatasetError(
            f"{images.name} has {len(pixels)} images but {labels.name} has {len(classes)} labels"
        )
    if pixels.size == 0:
        raise DatasetError(f"{images}: no pixels, shape {pixels.shape}")
    if classes.max() >= N_CLASSES:
        raise DatasetError(f"{labels}: label {classes.max()}, expected 0 to {N_CLASSES - 1}")
    x = pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)
    return x, classes.astype(np.int32)


def _split(name: str, x: np.ndarray, t: np.ndarray, test_fraction: float) -> Dataset:
    n_test = round(len(x) * test_fraction)
    if n_test < 1 or n_test >= len(x):
        raise DatasetError(f"{name}: {len(x)} images are too few to split into train and test")
    # A generator of its own: the global one belongs to the training run.
    order = np.random.RandomState(0).permutation(len(x))
    test, train = order[:n_test], order[n_test:]
    return Dataset(name, x[train], t[train], x[test], t[test])
