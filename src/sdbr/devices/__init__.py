"""GPUs, without what runs on them: what compiles for them."""
