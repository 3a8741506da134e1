"""What `import sdbr` does to a new interpreter."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import traceback

import sdbr
from sdbr.compat import import_hook, importing, installation
from sdbr.compat.fix import SourceFix
from sdbr.compat.stack import Stack

import chainer
import numpy as np
import pytest

from tests.harness.threads import in_threads


def run(code: str, *flags: str, **environment: str) -> str:
    """Run code in a new interpreter and return what it printed; fail with its errors if it did."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_import_is_free_of_warnings():
    run("import sdbr, chainer", "-W", "error")


def test_import_is_free_of_warnings_without_byte_code(tmp_path):
    run("import sdbr, chainer", "-W", "error", PYTHONPYCACHEPREFIX=str(tmp_path))


def test_import_of_testing_and_caffe_is_free_of_warnings():
    run(
        "import sdbr, chainer.testing, chainer.gradient_check\n"
        "import chainer.links.caffe, chainer.exporters",
        "-W",
        "error",
    )


def test_warning_filters_are_left_alone():
    code = """
import warnings
# What imports of these leave behind, and nothing else.
import numpy, scipy.sparse, scipy.special
before = list(warnings.filters)
import sdbr
assert warnings.filters == before, warnings.filters
"""
    run(code)


def test_filters_of_imported_packages_are_kept():
    code = """
import warnings, numpy
import sdbr, chainer.functions as F, chainer.utils
assert any(entry[1] and 'matrix subclass' in entry[1].pattern for entry in warnings.filters)
assert not any(entry[1] and 'cudnn' in entry[1].pattern for entry in warnings.filters)
"""
    run(code)


def test_numpy_gets_no_names():
    code = """
import numpy, types
before = set(vars(numpy))
import sdbr, chainer, chainer.testing, chainer.links.caffe
new = set(vars(numpy)) - before
assert all(isinstance(getattr(numpy, name), types.ModuleType) for name in new), new
"""
    run(code)


def test_no_false_module_is_left_behind():
    code = """
import sys
import sdbr, chainer.testing
from sdbr.compat.import_hook import FixFinder
from sdbr.compat.stack import Stack
if Stack().setuptools is None or Stack().setuptools >= (67, 5):
    assert 'pkg_resources' not in sys.modules
import chainer.testing.doctest_helper, chainer.links.caffe
if Stack().has_mpi4py:
    import chainermn.communicators.mpi_communicator_base
assert not any(isinstance(finder, FixFinder) for finder in sys.meta_path)
"""
    run(code)


def test_finder_leaves_everything_else_alone():
    finder = import_hook.FixFinder(importing.FIXES, lambda fix: None)
    assert finder.find_spec("chainer.functions.array.reshape", chainer.functions.__path__) is None
    assert finder.find_spec("numpy", None) is None


ALREADY_IMPORTED = """
# An import of Chainer without sdbr, made possible on every stack.
import sys, types, warnings, numpy
check = types.ModuleType('chainer._environment_check')
check.check = lambda: None
sys.modules[check.__name__] = check
old = not hasattr(numpy, 'sctypes')
if old:
    numpy.sctypes = {'int': [numpy.int8, numpy.int16, numpy.int32, numpy.int64], 'float': []}
with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # about cuDNN, where there is CuPy
    import chainer, chainer.functions as F
if old:
    del numpy.sctypes
as_strided, resize_images = F.as_strided, F.resize_images

import sdbr
"""


def test_chainer_imported_before():
    code = (
        ALREADY_IMPORTED
        + """
assert F.resize_images is resize_images
x = chainer.Variable(numpy.arange(4, dtype='f'))
y = as_strided(x, (2, 3), (1, 1), 0)
y.grad = numpy.ones_like(y.array)
y.backward()
assert x.grad.tolist() == [1, 2, 2, 1]
assert resize_images(numpy.ones((1, 1, 2, 2), 'f'), (3, 3)).shape == (1, 1, 3, 3)
W = chainer.Variable(numpy.ones((1, 1, 3, 3), 'f'))
y = F.deconvolution_2d(numpy.ones((1, 1, 4, 4), 'f'), W)
y.grad = y.array
y.backward()
names = [name for name, reason in sdbr.compat.applied_fixes()]
assert 'numpy-float' in names and 'deconvolution-2d-backward' in names
assert 'environment-check' not in names
version = sdbr.compat.LINK_VERSION[0]
chainer.Link().x = 1
assert sdbr.compat.LINK_VERSION[0] != version
"""
    )
    run(code, "-W", "error")


def test_failed_import_before():
    code = """
import sys
# Whatever the stack: the check at the end of Chainer's import fails.
sys.modules['numpy.distutils.system_info'] = sys.modules['pkg_resources'] = None
try:
    import chainer
except Exception:
    pass
else:
    raise SystemExit('the import was expected to fail')
assert any(name.startswith('chainer.') for name in sys.modules)
del sys.modules['numpy.distutils.system_info'], sys.modules['pkg_resources']
import sdbr
import chainer, chainer.functions as F, numpy
assert chainer.links.Linear(3, 2)(numpy.ones((1, 3), 'f')).shape == (1, 2)
assert chainer.utils.WalkerAlias
"""
    run(code, "-W", "error")


def test_threads_install_once():
    code = """
import sys, threading
barrier = threading.Barrier(8, timeout=60)
def work():
    barrier.wait()
    import sdbr
    sdbr.compat.install()
threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join(200)
assert not any(thread.is_alive() for thread in threads), "threads that import still wait"
import chainer, sdbr
names = [name for name, reason in sdbr.compat.applied_fixes()]
assert len(names) == len(set(names)), names
assert not hasattr(chainer.Link.__setattr__.__wrapped__, '__wrapped__')
"""
    run(code)


def test_install_is_idempotent():
    before = chainer.Link.__setattr__, sdbr.compat.applied_fixes()
    in_threads(4, lambda _: sdbr.compat.install())
    assert (chainer.Link.__setattr__, sdbr.compat.applied_fixes()) == before


def test_other_version_is_left_alone(monkeypatch):
    monkeypatch.setattr(installation, "chainer_version", lambda: "7.7.0")
    with pytest.warns(sdbr.SdbrWarning, match=r"Chainer 7\.7\.0 .* 7\.8\.1: none applied"):
        assert installation.Installation(Stack())._fitting() == []


def test_missing_chainer_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "chainer")
    assert installation.chainer_version() == "7.8.1"
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"needs Chainer 7\.8\.1") as caught:
        installation.chainer_version()
    assert caught.value.name == "chainer"


def test_import_that_fails_all_the_same_is_explained():
    code = """
import sys
sys.modules['six'] = None
try:
    import sdbr
except Exception as error:
    assert type(error).__name__ == 'SdbrError', error
    assert 'Chainer 7.8.1 cannot be imported' in str(error) and 'numpy' in str(error)
    assert error.__cause__ is not None
    assert not any(name.startswith('chainer') for name in sys.modules)
else:
    raise SystemExit('the import was expected to fail')
"""
    run(code)


def test_changed_text_is_left_alone_with_a_warning():
    fix = SourceFix(
        name="example",
        module="chainer.functions.array.resize_images",
        reason="-",
        stacks="-",
        needed=lambda stack: True,
        replacements=(("a", "b", 1), ("not there", "", 1)),
    )
    with pytest.warns(sdbr.SdbrWarning, match="'example' does not fit.*found 0"):
        assert import_hook.substitute(fix, "a c") is None
    assert import_hook.substitute(importing.RESIZE_IMAGES, "dtype=numpy.float)\n" * 6) == (
        "dtype=float)\n" * 6
    )


def test_replacements_keep_the_lines():
    for fix in importing.FIXES:
        for old, new, _ in getattr(fix, "replacements", ()):
            assert old.count("\n") == new.count("\n")


def test_source_and_traceback_of_changed_modules():
    from chainer.functions.array import as_strided, resize_images

    source = inspect.getsource(resize_images.compute_indices_and_weights)
    assert source.startswith("def compute_indices_and_weights(")
    assert source.rstrip().endswith("return v, u, vw, uw")

    x = np.zeros(4, np.int32)
    node = as_strided.AsStridedGrad(as_strided.TensorGeometry(x), (2,), (1,), 0)
    with pytest.raises(TypeError) as caught:
        node.forward((x,))
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert frame.filename == as_strided.__file__
    assert frame.line.startswith("raise TypeError(")
