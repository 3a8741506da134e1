"""Programs: the op table, the flat arrays, passes and the memory plan."""
