"""Timing: clocks, marks around modules and autograd nodes, and the device's own trace."""
