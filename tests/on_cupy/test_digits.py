"""The demo with arrays of CuPy: digits are learnt there as by define-by-run."""

from sdbr.cli import demo
from sdbr.cli.demo import datasets

from tests.tolerances import SUMS


def test_training_of_the_demo():
    arguments = ["--device", "@cupy:0", "--epochs", "1", "--units", "16", "--batch-size", "200"]
    options = demo._parse(arguments)
    data = datasets.load("digits", None)
    device = demo._device(options.device)
    demo._check_backend(options.backend, device)
    plain = demo.train(data, options, device, static=False)
    static = demo.train(data, options, device, static=True)
    assert demo.curve_difference(plain.epoch_losses, static.epoch_losses) < SUMS
    assert static.counters["define_by_run_calls"] == static.counters["python_ops"] == 0
    assert static.counters["replays"] > static.counters["traces"]
