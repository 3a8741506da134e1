"""Benchmarks of sdbr against other ways to run the same networks; see README.md here."""
