"""Golden data measured by themselves: what they can prove, what they cover, what in them is doubtful."""
