"""One optimizer on several processes: what they agree on, average, and end together."""
