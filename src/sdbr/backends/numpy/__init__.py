"""The reference: programs run op by op with NumPy, by the formulas of the op table."""
