"""Audits: a replay beside plain define-by-run, compared in everything that a user can see."""
