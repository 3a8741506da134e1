"""Programs on GPUs: which kernel runs each op, on how many threads; launches as graphs.

No array of CuPy comes that far yet: what is here is proven without a device (`docs/gpu.md`).
"""
