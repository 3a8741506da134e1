"""IDX files and the bundled digits: what is read, and one clear line for what cannot be."""

import gzip
import struct

from sdbr.cli.demo import datasets
from sdbr.cli.demo.datasets import DatasetError

import numpy as np
import pytest


def idx_bytes(array, magic):
    header = struct.pack(f">I{array.ndim}I", magic, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_pair(directory, prefix="train", n=40, side=28, compress=False, seed=0):
    random = np.random.RandomState(seed)
    images = random.randint(0, 256, (n, side, side))
    labels = random.randint(0, 10, n)
    for kind, array, magic in (("images-idx3", images, 2051), ("labels-idx1", labels, 2049)):
        data = idx_bytes(array, magic)
        suffix = ".gz" if compress else ""
        (directory / f"{prefix}-{kind}-ubyte{suffix}").write_bytes(
            gzip.compress(data) if compress else data
        )
    return images, labels


@pytest.mark.parametrize("compress", [False, True])
def test_mnist_with_both_parts_is_read_as_it_is(tmp_path, compress):
    images, labels = write_pair(tmp_path, "train", 40, compress=compress)
    test_images, test_labels = write_pair(tmp_path, "t10k", 10, compress=compress, seed=1)
    data = datasets.load("mnist", str(tmp_path))
    assert data.x_train.dtype == np.float32 and data.t_train.dtype == np.int32
    np.testing.assert_array_equal(
        data.x_train, (images.reshape(40, -1) / np.float32(255)).astype("f")
    )
    np.testing.assert_array_equal(data.t_train, labels)
    np.testing.assert_array_equal(data.t_test, test_labels)
    assert data.x_test.shape == (10, 784) and test_images.shape == (10, 28, 28)


def test_one_pair_is_split_without_overlap_or_loss(tmp_path):
    images, _ = write_pair(tmp_path, "t10k", 40, compress=True)
    data = datasets.load("mnist", str(tmp_path))
    assert len(data.x_train) == 36 and len(data.x_test) == 4
    found = np.concatenate([data.x_train, data.x_test])
    expected = images.reshape(40, -1).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(expected, axis=0))


def test_the_split_leaves_the_global_generator_alone(tmp_path):
    write_pair(tmp_path)
    np.random.seed(3)
    expected = np.random.rand()
    np.random.seed(3)
    datasets.load("mnist", str(tmp_path))
    assert np.random.rand() == expected


def test_bundled_digits():
    pytest.importorskip("sklearn", reason="scikit-learn is missing")
    data = datasets.load("digits")
    assert len(data.x_train) + len(data.x_test) == 1797
    assert data.n_features == 64 and data.x_train.dtype == np.float32
    assert data.x_train.min() == 0 and data.x_train.max() == 1


def damage(directory, name, change):
    path = directory / name
    path.write_bytes(change(path.read_bytes()))


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (IMAGES, lambda raw: raw[:-1], "truncated"),
        (IMAGES, lambda raw: raw[:10], "truncated"),
        (IMAGES, lambda raw: b"", "truncated"),
        (LABELS, lambda raw: raw[:-1], "truncated"),
        (IMAGES, lambda raw: raw + b"x", "bytes, but the header"),
        (IMAGES, lambda raw: b"\0\0\x08\x01" + raw[4:], "wrong magic number 2049, expected 2051"),
        (LABELS, lambda raw: b"\0\0\x08\x03" + raw[4:], "wrong magic number 2051, expected 2049"),
        (LABELS, lambda raw: b"PK\x03\x04" + raw[4:], "wrong magic number"),
        (LABELS, lambda raw: raw[:4] + struct.pack(">I", 39) + raw[8:-1], "40 images .* 39 labels"),
        (LABELS, lambda raw: raw[:8] + bytes([10]) + raw[9:], "label 10, expected 0 to 9"),
        (IMAGES, lambda raw: raw[:4] + b"\xff" * 12 + raw[16:], "truncated"),
        (IMAGES, lambda raw: gzip.compress(raw)[:-20], "truncated gzip"),
        (IMAGES, lambda raw: b"\x1f\x8b" + raw[2:], "damaged gzip"),
        (IMAGES, lambda raw: raw[:4] + struct.pack(">3I", 0, 28, 28), "0 images"),
    ],
)
def test_damaged_files_give_one_line_that_names_the_file(tmp_path, name, change, message):
    write_pair(tmp_path)
    damage(tmp_path, name, change)
    with pytest.raises(DatasetError, match=message) as caught:
        datasets.load("mnist", str(tmp_path))
    assert "\n" not in str(caught.value)
    assert "train-" in str(caught.value)


def test_an_empty_pair_is_refused(tmp_path):
    write_pair(tmp_path, n=0)
    with pytest.raises(DatasetError, match="no pixels"):
        datasets.load("mnist", str(tmp_path))


def test_too_few_images_to_split(tmp_path):
    write_pair(tmp_path, n=2)
    with pytest.raises(DatasetError, match="too few"):
        datasets.load("mnist", str(tmp_path))


def test_parts_of_different_size_are_refused(tmp_path):
    write_pair(tmp_path, "train", side=28)
    write_pair(tmp_path, "t10k", side=20)
    with pytest.raises(DatasetError, match=r"784 pixels.*400"):
        datasets.load("mnist", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "directory", "message"),
    [
        ("mnist", None, "needs --data-dir"),
        ("digits", "somewhere", "belongs to --dataset mnist"),
        ("letters", None, "unknown data set"),
    ],
)
def test_arguments_that_do_not_fit(name, directory, message):
    with pytest.raises(DatasetError, match=message):
        datasets.load(name, directory)


def test_missing_files(tmp_path):
    with pytest.raises(DatasetError, match="no such directory"):
        datasets.load("mnist", str(tmp_path / "absent"))
    with pytest.raises(DatasetError, match="no MNIST files"):
        datasets.load("mnist", str(tmp_path))
    write_pair(tmp_path)
    (tmp_path / LABELS).unlink()
    with pytest.raises(DatasetError, match="train images but not the train labels"):
        datasets.load("mnist", str(tmp_path))
