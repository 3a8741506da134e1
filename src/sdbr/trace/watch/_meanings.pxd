"""Compiled functions of which it is known what calling them reads."""

from sdbr.trace.watch._notes cimport Notes

cpdef object advance(Notes notes, iterator)
