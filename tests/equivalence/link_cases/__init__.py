"""The table for chainer.links: one module per family, named like those of Chainer."""

from __future__ import annotations

import importlib

FAMILIES = ("activation", "classifier", "connection", "hooks", "loss", "normalization", "rnn")

CASES = [
    case
    for family in FAMILIES
    for case in importlib.import_module(f"tests.equivalence.link_cases.{family}").CASES
]


#: Links that are too big for the table: test_vision.py.
BIG = {
    "GoogLeNet",
    "ResNet101Layers",
    "ResNet152Layers",
    "ResNet50Layers",
    "VGG16Layers",
    "VGG19Layers",
}
