"""Families of ops: from op and layouts to launches, one module each."""
