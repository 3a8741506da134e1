"""Makes the environment of the peers: ``python benchmarks/peers_env.py [DIRECTORY]``.

Prints the interpreter to hand to ``python -m sdbr bench --peer-python``. An environment that is
there already is used again. Needs the network, or an index that pip knows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parent / ".venv-peers"


def main(argv: list[str] | None = None) -> int:
    """Create the environment and install requirements-peers.txt; returns pip's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", nargs="?", type=Path, default=DEFAULT)
    directory = parser.parse_args(argv).directory.absolute()
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
    requirements = HERE / "requirements-peers.txt"
    command = [str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
    code = subprocess.run(command, check=False).returncode
    if code:
        print("pip failed; peers that are missing are left out of a run", file=sys.stderr)
        return code
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
