"""Chainer's graph: Variables, and the way back through it, compiled."""
