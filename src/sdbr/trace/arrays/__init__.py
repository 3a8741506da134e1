"""Arrays and numbers that know where they come from while a call is traced."""
