"""Programs: the builder, passes, the memory plan and the flat arrays."""
