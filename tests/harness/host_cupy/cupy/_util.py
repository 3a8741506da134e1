"""Memoization, and the warning that Chainer imports from here."""

import functools
import threading

from .cuda.device import get_device_id


class PerformanceWarning(RuntimeWarning):
    pass


_memos: list[dict] = []


def memoize(for_each_device=False, for_each_thread=False):
    """Keep results by arguments, as `cupy.memoize`."""

    def decorator(f):
        memo: dict = {}
        _memos.append(memo)

        @functools.wraps(f)
        def call(*args, **kwargs):
            key = (
                args,
                frozenset(kwargs.items()),
                get_device_id() if for_each_device else None,
                threading.get_ident() if for_each_thread else None,
            )
            if key not in memo:
                memo[key] = f(*args, **kwargs)
            return memo[key]

        return call

    return decorator


def clear_memo():
    for memo in _memos:
        memo.clear()
