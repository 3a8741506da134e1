"""The commands of ``python -m sdbr``: a module or folder each, with ``main(argv) -> exit code``."""
