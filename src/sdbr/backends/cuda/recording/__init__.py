"""Launches of programs as graphs: in which form, and what has to wait for what."""
