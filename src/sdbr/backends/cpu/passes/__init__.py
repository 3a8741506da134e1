"""Passes that shape a program for this processor; they run last, see ``MACHINE``."""
