"""What remains when the training loop is Chainer's own."""

from benchmarks.cases.base import Case

CASE = Case(
    name="trainer_digits",
    title="mlp_digits through Trainer, StandardUpdater and LogReport",
    kind="trainer",
    sizes=(64, 128, 128, 10),
    batch=64,
    ring=23,
)
