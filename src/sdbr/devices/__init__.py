"""GPUs, without what runs on them: their driver, and what compiles for them."""
