"""A working copy of Chainer's tests, with the names that NumPy has removed replaced."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

# What a test file names, and what it meant.
REMOVED = {
    r"\b(np|numpy)\.(bool|int|float|object)\b(?!_)": r"\2",
    r"\b(np|numpy)\.product\b": r"\1.prod",
    r"\bnumpy\.complex_\b": "numpy.complex128",
}

SETTINGS = """[pytest]
filterwarnings =
    error
    default::ImportWarning
    ignore:Some of grads are ignored by chainer\\.backward\\.:RuntimeWarning
    ignore::chainer.warnings.PerformanceWarning
    ignore::DeprecationWarning
    ignore::PendingDeprecationWarning
    ignore::FutureWarning
    ignore::SyntaxWarning
    ignore::pytest.PytestWarning
    ignore:.* encountered in :RuntimeWarning
python_files = test_*.py
markers =
    chainerx
    cudnn
    gpu
    ideep
    theano
    multi_gpu
    slow
    parametrize_device
    parametrize_device_name
"""


def copy(checkout: Path, target: Path) -> Path:
    """Copy the tests below `checkout` into `target`; the folder to run them in.

    Raises
    ------
    FileNotFoundError
        If `checkout` has no ``tests/chainer_tests``.
    """
    source = checkout / "tests"
    if not (source / "chainer_tests").is_dir():
        raise FileNotFoundError(f"checkout: no tests/chainer_tests below {checkout}")
    tests = target / "tests"
    shutil.copytree(source / "chainer_tests", tests / "chainer_tests")
    shutil.copy(source / "conftest.py", tests / "conftest.py")
    (tests / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
    for path in tests.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        new = text
        for pattern, replacement in REMOVED.items():
            new = re.sub(pattern, replacement, new)
        if new != text:
            path.write_text(new, encoding="utf-8")
    return tests
