"""What user code is, and what it may read, reach and call: byte code, globals, generators."""
