"""A language model of two LSTM layers, unrolled; no dropout, so that all compute the same.

Samples are the steps: a batch is (steps, sentences), as truncated back-propagation reads it.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases.network import NetworkCase, Spec, embed, linear

N_WORDS, N_UNITS, N_STEPS, N_SENTENCES = 10_000, 200, 20, 20


def specs() -> Iterator[Spec]:
    """Weights as ``L.LSTM`` has them: the four gates of a unit are neighbours."""
    yield from embed("embed", N_WORDS, N_UNITS)
    for name in ("l1", "l2"):
        yield from linear(f"{name}/upward", N_UNITS, 4 * N_UNITS)
        yield f"{name}/lateral/W", (4 * N_UNITS, N_UNITS), N_UNITS**-0.5
    yield from linear("out", N_UNITS, N_WORDS)


CASE = NetworkCase(
    name="lstm_ptb",
    title="2 LSTM layers, 200 units, vocabulary 10,000, 20 steps unrolled, Adam",
    kind="train",
    batch=N_STEPS,
    ring=32,
    shape=(N_SENTENCES,),
    classes=N_WORDS,
    words=N_WORDS,
    specs=specs,
    check_steps=5,
    tolerance=1e-3,
)
