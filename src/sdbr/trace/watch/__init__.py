"""The code that runs, followed instruction by instruction."""
