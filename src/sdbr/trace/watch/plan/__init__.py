"""Tests in C that tell that nothing of what a call has read has changed."""
