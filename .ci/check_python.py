"""Says what this interpreter lacks for `make`; exit code 1 when it lacks something.

Runs on any Python 3, since its first question is how old this one is.
"""

import os
import shlex
import shutil
import sys
import sysconfig


def complaint():
    """What is missing and how to mend it, or None."""
    name = "{} ({})".format(sys.executable, sys.version.split()[0])
    choose = "or choose another interpreter: make PYTHON=python3.12 ..."
    if sys.platform == "win32":
        return "sdbr does not support Windows; inside WSL it builds and runs as on Linux"
    if sys.version_info < (3, 10):
        return "{} is too old: sdbr needs Python 3.10 or later\n  {}".format(name, choose)
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        mend = "on Debian and Ubuntu: apt install python3-venv"
        return "{} cannot make a virtual environment\n  {}\n  {}".format(name, mend, choose)
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.exists(header):
        mend = "on Debian and Ubuntu: apt install python3-dev; on Fedora: dnf install python3-devel"
        return "{} has no C headers ({})\n  {}\n  {}".format(name, header, mend, choose)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if not shutil.which(compiler):
        mend = "install a C compiler (apt install gcc; xcode-select --install), or name one: CC=..."
        return "there is no C compiler {!r}\n  {}".format(compiler, mend)
    return None


if __name__ == "__main__":
    problem = complaint()
    if problem:
        sys.exit("make: " + problem)
