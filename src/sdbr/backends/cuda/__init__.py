"""Programs on GPUs: which kernel runs each op, on how many threads; launches as graphs.

What is proven without a device, and what was seen on one: `docs/gpu.md`.
"""
