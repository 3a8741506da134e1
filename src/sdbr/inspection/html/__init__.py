"""Reports, profiles, schedules and programs as HTML, without anything from elsewhere."""
