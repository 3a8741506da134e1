"""What calling means."""

from sdbr.trace.watch._notes cimport Notes

cpdef object call(Notes notes, function, list args, dict kwargs)
