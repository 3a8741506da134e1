"""The commands of ``python -m sdbr``: one module each, with ``main(argv) -> exit code``."""
