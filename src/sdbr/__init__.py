"""Static define-by-run: a compiled, replayable schedule for Chainer models."""

from sdbr import compat, errors

compat.install()

__all__ = ["errors"]
