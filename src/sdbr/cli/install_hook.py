"""``sdbr install-hook``: ``import chainer`` works without ``import sdbr`` before it."""

import argparse
import os
import sys
import sysconfig
from collections.abc import Sequence

#: What Python reads at its start, and what that imports: `import` in a `.pth` is one line.
START = "sdbr_import_hook.pth"
MODULE = "sdbr_import_hook.py"
_CODE = '''\
"""Written by `sdbr install-hook`; `sdbr install-hook --remove` takes it away.

Chainer cannot be imported with newer versions of NumPy and Python unless sdbr has been before.
"""

import sys


class _Loaded:
    """Gives the module that is there."""

    def __init__(self, module):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        module.__spec__, module.__loader__ = self.spec, self.spec.loader


class Finder:
    """Imports sdbr when Chainer is asked for, which makes it importable."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "chainer" or "sdbr" in sys.modules:
            return None
        sys.meta_path.remove(cls)
        try:
            import sdbr  # noqa: F401
        except ModuleNotFoundError as error:
            if error.name != "sdbr":
                raise
            return None
        from importlib.machinery import ModuleSpec

        module = sys.modules[name]
        spec = ModuleSpec(name, _Loaded(module))
        module.__spec__ = spec  # or the import takes the module's own, and runs it again
        return spec


sys.meta_path.insert(0, Finder)
'''
_START = "import sdbr_import_hook\n"


def main(argv: Sequence[str] = (), folder: str | None = None) -> int:
    """Write the hook into this environment, or take it away.

    Parameters
    ----------
    argv : sequence of str
    folder : str, optional
        Where packages are, which Python reads at its start.

    Returns
    -------
    int
        0, or 1 where the folder cannot be written.
    """
    parser = argparse.ArgumentParser(
        prog="sdbr install-hook",
        description="Let `import chainer` in this environment import sdbr first, without which it "
        "fails on new versions of NumPy and Python. Scripts stay as they are.",
    )
    parser.add_argument("--remove", action="store_true", help="take the hook away")
    options = parser.parse_args(argv)
    folder = folder or sysconfig.get_paths()["purelib"]
    paths = {os.path.join(folder, MODULE): _CODE, os.path.join(folder, START): _START}
    there = [path for path in paths if os.path.exists(path)]
    try:
        for path, text in paths.items():
            if not options.remove:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            elif path in there:
                os.remove(path)
    except OSError as error:
        print(f"sdbr install-hook: {error}", file=sys.stderr)
        return 1
    if options.remove and not there:
        print(f"there is no hook in {folder}")
        return 0
    done = "took the hook out of" if options.remove else "wrote the hook into"
    print(f"{done} {folder}: {START}, {MODULE}")
    return 0
