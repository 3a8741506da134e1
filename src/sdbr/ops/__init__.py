"""The op table: a module for each family of ops, and the table of all (`sdbr.ops.table`)."""
