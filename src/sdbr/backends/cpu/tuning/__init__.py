"""What is measured on this machine when a program is prepared, and kept for later processes."""
