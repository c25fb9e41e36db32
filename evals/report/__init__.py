"""Records to their output: JSON, terminal, figures. Pure; rounding happens here only."""
