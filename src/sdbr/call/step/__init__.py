"""Whole steps: forward, backward and update of an optimizer at once."""
