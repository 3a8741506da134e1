"""chainer.testing, which gradient_check imports, uses markers of its own."""


def pytest_configure(config):
    for name in ("chainerx", "cudnn", "gpu", "ideep", "multi_gpu", "slow"):
        config.addinivalue_line("markers", f"{name}: of chainer.testing")
