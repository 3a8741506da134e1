"""What was traced and how fast it runs: explain and profile."""
