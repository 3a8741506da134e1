"""Programs on GPUs: which kernel runs each op, on how many threads.

Nothing launches them yet: what is here is proven without a device (`docs/gpu.md`).
"""
