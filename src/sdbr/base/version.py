"""The version of the package, which ``pyproject.toml`` reads here; it stands nowhere else."""

VERSION = "0.1.0"
