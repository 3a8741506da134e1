"""What validation asks of the arrays of a program, compiled."""
