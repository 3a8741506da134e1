"""Chainer's own tests as judge of a decorator: ``python -m tests.conformance CHECKOUT``."""
