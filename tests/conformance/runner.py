"""One pytest session over a copy of Chainer's tests: ``python -m tests.conformance.runner``.

``--how`` says what Chainer looks like:

- ``fixes``: as it is, with the fixes without which it does not run here, and nothing else
- ``sdbr``: sdbr is imported, and ``chainer.static_graph`` is sdbr's
- ``optimizers``: the same, and every ``GradientMethod`` that is set up is static
- ``judge``: the same as sdbr, and every gradient check is judged with ``--decorator``,
  with ``--more`` as a whole step and in test mode, too
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import types
import unittest.mock

MARKERS = "not gpu and not cudnn and not multi_gpu and not ideep and not chainerx and not slow"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--how", choices=("fixes", "sdbr", "optimizers", "judge"), default="judge")
    parser.add_argument("--decorator", default="sdbr")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("paths", nargs="+")
    options, rest = parser.parse_known_args()
    os.environ["CHAINER_TEST_PAIRWISE_PARAMETERIZATION"] = "always"
    # Chainer's tests were written for the package of this name.
    sys.modules.setdefault("mock", unittest.mock)
    (_fixes_only if options.how == "fixes" else _sdbr)()
    import pytest

    with open(options.log, "w", encoding="utf-8") as log:
        plugin = _plugin(log, options)
        arguments = ["-q", "-p", "no:cacheprovider", "-m", MARKERS, *rest, *options.paths]
        return pytest.main(arguments, plugins=[plugin])


def _plugin(log, options):
    if options.how == "judge":
        from tests.conformance.plugin import Judging

        return Judging(log, options.decorator, options.more)
    from tests.conformance.outcomes import Outcomes

    if options.how == "optimizers":
        _make_optimizers_static()
    return Outcomes(log)


def _fixes_only() -> None:
    """Chainer with the compatibility fixes; no other part of sdbr is imported."""
    package = types.ModuleType("sdbr")
    package.__path__ = list(importlib.util.find_spec("sdbr").submodule_search_locations)
    sys.modules["sdbr"] = package
    from sdbr.compat import installation, link_version, splitting

    link_version.install = splitting.install = lambda: None
    installation.install()


def _sdbr() -> None:
    import sdbr
    from sdbr.compat.drop_in import replace_decorators

    replace_decorators(sdbr.static_graph, sdbr.static_code)


def _make_optimizers_static() -> None:
    import sdbr

    import chainer

    original = chainer.Optimizer.setup

    def setup(self, link):
        result = original(self, link)
        if isinstance(self, chainer.GradientMethod):
            sdbr.static_optimizer(self)
        return result

    chainer.Optimizer.setup = setup


if __name__ == "__main__":
    sys.exit(main())
