"""Every native function against Chainer's: ``python -m benchmarks.ops``."""
