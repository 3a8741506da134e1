"""Small programs in the style of what people write, each against plain define-by-run."""
