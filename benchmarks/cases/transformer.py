"""A Transformer's encoder that names every word; no dropout, so that all compute the same."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cases.network import NetworkCase, Spec, embed, linear, norm

N_LAYERS, N_UNITS, N_HEADS, LENGTH, N_WORDS = 4, 128, 8, 64, 1000


def specs() -> Iterator[Spec]:
    """Embedding and positions, blocks of attention and two layers, one class per word."""
    yield from embed("embed", N_WORDS, N_UNITS)
    yield "position", (LENGTH, N_UNITS), 0.1
    for i in range(N_LAYERS):
        yield from norm(f"blocks/{i}/ln1", N_UNITS)
        yield from linear(f"blocks/{i}/qkv", N_UNITS, 3 * N_UNITS)
        yield from linear(f"blocks/{i}/out", N_UNITS, N_UNITS)
        yield from norm(f"blocks/{i}/ln2", N_UNITS)
        yield from linear(f"blocks/{i}/ff1", N_UNITS, 4 * N_UNITS)
        yield from linear(f"blocks/{i}/ff2", 4 * N_UNITS, N_UNITS)
    yield from norm("ln", N_UNITS)
    yield from linear("out", N_UNITS, N_WORDS)


CASE = NetworkCase(
    name="transformer",
    title="encoder, 4 layers, 128 wide, 8 heads, sequence 64, Adam",
    kind="train",
    batch=16,
    ring=32,
    shape=(LENGTH,),
    classes=N_WORDS,
    words=N_WORDS,
    specs=specs,
    check_steps=5,
    tolerance=1e-3,
)
