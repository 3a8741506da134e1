"""Every link of chainer.links: static equals define-by-run, call by call."""

from __future__ import annotations

import inspect

import chainer
import pytest

from .harness import TEST, Mode, check
from .link_rows import ROWS
from .link_rows.make import own_call

#: Links that are too big for the table: test_vision.py.
BIG = {
    "GoogLeNet",
    "ResNet101Layers",
    "ResNet152Layers",
    "ResNet50Layers",
    "VGG16Layers",
    "VGG19Layers",
}
PUBLIC = {
    name
    for name, thing in vars(chainer.links).items()
    if inspect.isclass(thing) and issubclass(thing, chainer.Link)
}
HOOKS = {"SpectralNormalization", "WeightStandardization"}


def each(rows):
    return pytest.mark.parametrize("row", rows, ids=[row.id for row in rows])


def test_every_public_name_has_a_row():
    assert len(PUBLIC) == 62
    assert {row.name for row in ROWS} == (PUBLIC - BIG) | HOOKS


BY_DTYPE = [(row, dtype) for row in ROWS for dtype in row.dtypes]


@pytest.mark.parametrize(("row", "dtype"), BY_DTYPE, ids=[f"{r.id}-{d}" for r, d in BY_DTYPE])
def test_inside_a_chain(row, dtype):
    check(row, dtype, "link")


@each([row for row in ROWS if row.call is own_call])
def test_wrapped_itself(row):
    check(row, "f", "instance", Mode(inputs="first"))


@each(ROWS)
def test_test_mode(row):
    check(row, "f", "link", TEST)


@each([row for row in ROWS if row.name not in ("EmbedID", "Parameter")])
def test_training_without_backprop(row):
    check(row, "f", "link", Mode(backprop=False, inputs="arrays"))
