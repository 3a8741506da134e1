"""``python -m sdbr run``: an unmodified Chainer script with the compatibility layer on."""

import argparse
import contextlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence

import sdbr
from sdbr.cli.watched import Watched
from sdbr.compat.drop_in import replace_decorators
from sdbr.inspection.profile import Profile


def main(argv: Sequence[str]) -> int:
    """Run the script named in `argv` as ``__main__``; its own ``sys.exit`` decides the exit code.

    Returns
    -------
    int
        0 when the script ran to its end, 2 when there is no such script or module.
    """
    options = _parser().parse_args(argv)
    # As the interpreter itself would have it: the script's folder first, its own command line.
    sys.path[0] = os.getcwd() if options.is_module else _folder_of(options.script)
    sys.argv = [options.script, *options.arguments]
    missing = (_no_module if options.is_module else _no_script)(options.script)
    if missing:
        print(f"sdbr run: {missing}", file=sys.stderr)
        return 2
    if options.static:
        replace_decorators(sdbr.static_graph, sdbr.static_code)
    watched = Watched(options.auto)
    profile = sdbr.profile() if options.profile else None
    try:
        with watched.watching(), profile or contextlib.nullcontext():
            if options.is_module:
                runpy.run_module(options.script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(options.script, run_name="__main__")
    finally:
        _tell(options, watched, profile)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sdbr run",
        description="Run an unmodified Chainer script with the compatibility layer on.",
    )
    parser.add_argument(
        "--static",
        action="store_true",
        help="chainer.static_graph and chainer.static_code are sdbr's",
    )
    parser.add_argument(
        "--auto",
        action="store_true",
        help="optimizers and what they train are made static where they are set up",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say on standard error, at the end, what became of everything static",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="say on standard error, at the end, where the time of replays went",
    )
    parser.add_argument(
        "-m",
        dest="is_module",
        action="store_true",
        help="SCRIPT is the name of a module, as behind python -m",
    )
    parser.add_argument("script", metavar="SCRIPT")
    rest = parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    rest.required = False  # there may be none
    return parser


def _folder_of(script: str) -> str:
    return os.path.dirname(os.path.realpath(script))


def _no_script(path: str) -> str | None:
    if os.path.isdir(path):
        return f"a folder, not a script: {path} (a module of a package is run by sdbr run -m)"
    return None if os.path.isfile(path) else f"no such script: {path}"


def _no_module(name: str) -> str | None:
    """Why there is nothing to run, where it is not for an error in a package."""
    packages = name.split(".")
    spec = None
    for n in range(1, len(packages) + 1):
        try:
            spec = importlib.util.find_spec(".".join(packages[:n]))
        except ValueError:
            spec = None
        if spec is None or (n < len(packages) and spec.submodule_search_locations is None):
            return f"no such module: {name}"
    is_package = spec is not None and spec.submodule_search_locations is not None
    if is_package and importlib.util.find_spec(f"{name}.__main__") is None:
        return f"a package without a __main__: {name}"
    return None


def _tell(options: argparse.Namespace, watched: Watched, profile: Profile | None) -> None:
    """Reports that were asked for; and that there is nothing to report."""
    sys.stdout.flush()
    if options.explain:
        print(f"\nsdbr run: {watched.report()}", file=sys.stderr)
    elif options.static and not watched.is_static:
        print(f"\nsdbr run: {watched.nothing_static()}", file=sys.stderr)
    if profile is not None:
        nothing = "nothing was replayed; sdbr run --explain says why"
        print(f"\nsdbr run: {profile.table() if profile.runs else nothing}", file=sys.stderr)
