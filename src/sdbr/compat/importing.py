"""Fixes for what keeps modules of Chainer from being imported, or names a module that is gone."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

from sdbr.compat.fix import ModuleFix, SourceFix
from sdbr.compat.stack import Stack

_SIGNED = "(np.int8, np.int16, np.int32, np.int64)"
_FLOATING = "(np.float16, np.float32, np.float64, np.longdouble)"

AS_STRIDED = SourceFix(
    name="numpy-sctypes",
    module="chainer.functions.array.as_strided",
    reason="numpy.sctypes is gone, so chainer cannot be imported",
    stacks="NumPy >= 2.0",
    needed=lambda stack: stack.numpy >= (2,),
    replacements=(
        ("np.sctypes['int']", _SIGNED, 1),
        ("np.sctypes['float']", _FLOATING, 1),
    ),
)

RESIZE_IMAGES = SourceFix(
    name="numpy-float",
    module="chainer.functions.array.resize_images",
    reason="numpy.float is gone, so F.resize_images raises AttributeError",
    stacks="NumPy >= 1.24",
    needed=lambda stack: stack.numpy >= (1, 24),
    replacements=(("dtype=numpy.float)", "dtype=float)", 6),),
)


def _fill_environment_check(module: ModuleType) -> None:
    def check() -> None:
        """Check nothing: ``python -m sdbr doctor`` looks at the environment instead."""

    module.check = check


ENVIRONMENT_CHECK = ModuleFix(
    name="environment-check",
    module="chainer._environment_check",
    reason="it imports numpy.distutils and pkg_resources, which are gone or warn when imported",
    stacks="all (fails on Python >= 3.12 and without pkg_resources, warns on the others)",
    needed=lambda stack: True,
    fill=_fill_environment_check,
)


def _pkg_resources_fails_or_warns(stack: Stack) -> bool:
    return not stack.has_pkg_resources or (stack.setuptools or ()) >= (67, 5)


def _testing_fix(name: str, module: str) -> SourceFix:
    return SourceFix(
        name=name,
        module=module,
        reason="it imports pkg_resources, which is gone or warns when imported",
        stacks="setuptools >= 67.5, or none",
        needed=_pkg_resources_fails_or_warns,
        replacements=(
            ("import pkg_resources", "from sdbr.compat import requirements as pkg_resources", 1),
        ),
    )


TESTING_HELPER = _testing_fix("testing-helper", "chainer.testing.helper")
TESTING_DOCTEST = _testing_fix("testing-doctest", "chainer.testing.doctest_helper")


def _fill_caffe_messages(module: ModuleType) -> None:
    """Build the message classes from the serialized description that the module's file holds."""
    from google.protobuf import descriptor_pool
    from google.protobuf.internal import builder

    tree = ast.parse(Path(module.__spec__.origin).read_text(encoding="latin-1"))
    keyword = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "serialized_pb"
    )
    # The bytes are written as the text argument of a helper that encodes them.
    description = keyword.value.args[0].value.encode("latin-1")
    module.DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(description)
    builder.BuildMessageAndEnumDescriptors(module.DESCRIPTOR, vars(module))
    builder.BuildTopDescriptorsAndMessages(module.DESCRIPTOR, module.__name__, vars(module))


CAFFE_MESSAGES = ModuleFix(
    name="caffe-messages",
    module="chainer.links.caffe.protobuf3.caffe_pb2",
    reason="generated code of that age is refused by protobuf's native implementations",
    stacks="protobuf >= 4 (unless PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python was set)",
    needed=lambda stack: (stack.protobuf or ()) >= (4,),
    fill=_fill_caffe_messages,
)

FIXES = (
    AS_STRIDED,
    RESIZE_IMAGES,
    ENVIRONMENT_CHECK,
    TESTING_HELPER,
    TESTING_DOCTEST,
    CAFFE_MESSAGES,
)
