"""Which code of Chainer only passes arrays on, and does not compute with them."""

from __future__ import annotations

_MACHINERY = frozenset({
    'variable', 'function_node', 'function', '_backprop', '_backprop_utils', 'backend',
    '_backend', 'backends', 'reporter', 'link', 'optimizer', 'device_resident', 'initializers',
    'initializer', 'testing', 'utils.type_check', 'types',
})  # fmt: skip


def called_by_machinery(frame) -> bool:
    """Whether `frame` belongs to the parts of Chainer that only pass arrays on."""
    package, _, rest = frame.f_globals.get("__name__", "").partition(".")
    if package != "chainer":
        return False
    if frame.f_code.co_name == "_initialize_params":
        return True  # parameters get their first values in the first call
    return rest.partition(".")[0] in _MACHINERY or rest in _MACHINERY
