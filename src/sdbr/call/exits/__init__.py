"""Side exits: a replay finds, in its middle, that what the call reads has changed."""
