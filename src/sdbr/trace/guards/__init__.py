"""What must hold again before a traced call may be replayed."""
