"""Update rules that have an op: one module each, with its row as ``ROW``; the table lists them."""
