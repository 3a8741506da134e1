"""Iterations of Chainer's examples, static against define-by-run.

``python -m benchmarks.examples`` prints the table of docs/examples.md. The networks are of the
kinds of the examples, written anew, some of them smaller: what a row says is how such code fares,
not how fast that very example is.
"""
