"""A trace to ops: forward, gradients, and what has no row of the function table."""
