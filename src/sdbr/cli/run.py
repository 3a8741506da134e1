"""``python -m sdbr run``: an unmodified Chainer script with the compatibility layer on."""

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

import sdbr
from sdbr.compat.drop_in import replace_decorators


def main(argv: Sequence[str]) -> int:
    """Run the script named in `argv` as ``__main__``; its own ``sys.exit`` decides the exit code.

    Returns
    -------
    int
        0 when the script ran to its end, 2 when there is no such script.
    """
    parser = argparse.ArgumentParser(
        prog="python -m sdbr run",
        description="Run an unmodified Chainer script with the compatibility layer on.",
    )
    parser.add_argument(
        "--static",
        action="store_true",
        help="chainer.static_graph and chainer.static_code are sdbr's",
    )
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)

    if not os.path.isfile(options.script):
        print(f"sdbr run: no such script: {options.script}", file=sys.stderr)
        return 2
    if options.static:
        replace_decorators(sdbr.static_graph, sdbr.static_code)
    # As the interpreter itself would have it: the script's folder first, its own command line.
    sys.path[0] = os.path.dirname(os.path.realpath(options.script))
    sys.argv = [options.script, *options.arguments]
    runpy.run_path(options.script, run_name="__main__")
    return 0
