"""Everything that is made from one traced call: its programs and their memory."""
