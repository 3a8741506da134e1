"""``sdbr`` and ``python -m sdbr``: environment check, demo, benchmarks, old scripts as they are."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from sdbr.base.version import VERSION

# command -> (module, what it does); the module is imported only when its command is asked for.
COMMANDS = {
    "doctor": ("sdbr.cli.doctor", "check this environment and say what to mend"),
    "demo": ("sdbr.cli.demo", "train a digit classifier, define-by-run and static"),
    "gpu-check": ("sdbr.cli.gpu_check", "check and measure this machine's GPU"),
    "bench": ("sdbr.cli.bench", "run the benchmarks"),
    "install-hook": (
        "sdbr.cli.install_hook",
        "let `import chainer` alone work from now on",
    ),
    "run": ("sdbr.cli.run", "run an unmodified Chainer script with the compatibility layer on"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named first in `argv`; the rest of `argv` belongs to that command.

    Returns
    -------
    int
        The exit code of the command; 2, with the help on standard error, where none is named.
    """
    lines = "\n".join(f"  {name:<14}{text}" for name, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="sdbr",
        description=f"commands:\n{lines}",
        epilog="sdbr COMMAND --help says more about one of them; python -m sdbr is the same.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sdbr {VERSION}")
    parser.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="go to the command")
    chosen = parser.parse_args(argv)
    if chosen.command is None:
        parser.print_help(sys.stderr)
        return 2
    module = importlib.import_module(COMMANDS[chosen.command][0])
    return module.main(chosen.arguments)


if __name__ == "__main__":
    sys.exit(main())
