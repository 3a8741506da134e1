"""From a program to kernels: the plan of a program, operands and spaces, cuts for threads."""
