"""Chainer's testing package marks its own helpers when it is imported."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for name in ("gpu", "cudnn", "multi_gpu", "ideep", "chainerx", "slow"):
        config.addinivalue_line("markers", f"{name}: used by chainer.testing")
