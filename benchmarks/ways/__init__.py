"""Ways to write a training step, against the whole step: ``python -m benchmarks.ways``."""
