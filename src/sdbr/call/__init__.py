"""One call: its key, its schedule, its replay, and what a replay hands out."""
