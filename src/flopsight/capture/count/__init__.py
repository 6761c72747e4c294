"""Counting: every op of a run with its module and phase, and the memory that the run holds."""
