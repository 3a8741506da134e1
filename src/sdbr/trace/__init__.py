"""Traces: what a call does, recorded while it runs define-by-run."""
