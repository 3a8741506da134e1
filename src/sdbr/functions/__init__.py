"""Rows of the function table, one module per family, named like chainer.functions."""
