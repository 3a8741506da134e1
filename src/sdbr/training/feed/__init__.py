"""Batches that worker processes assemble in shared memory."""
