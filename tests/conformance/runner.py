"""One pytest session over a copy of Chainer's tests: ``python -m conformance.runner``."""

from __future__ import annotations

import argparse
import os
import sys
import unittest.mock

# Chainer's tests were written for the package of this name.
sys.modules.setdefault("mock", unittest.mock)

import sdbr
from sdbr.compat.drop_in import replace_decorators

MARKERS = "not gpu and not cudnn and not multi_gpu and not ideep and not chainerx and not slow"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--decorator", default="sdbr")
    parser.add_argument("--no-judge", action="store_true")
    parser.add_argument("paths", nargs="+")
    options, rest = parser.parse_known_args()
    os.environ["CHAINER_TEST_PAIRWISE_PARAMETERIZATION"] = "always"

    import pytest

    from conformance.plugin import Judging

    if options.decorator == "sdbr":
        replace_decorators(sdbr.static_graph, sdbr.static_code)
    with open(options.log, "w", encoding="utf-8") as log:
        judging = Judging(log, options.decorator)
        arguments = ["-q", "-p", "no:cacheprovider", "-m", MARKERS, *rest, *options.paths]
        return pytest.main(arguments, plugins=[judging])


if __name__ == "__main__":
    sys.exit(main())
