"""What everything else rests on: errors, locks, threads, options."""
