"""Somebody's script, run as `python` runs it, with one window of its steps profiled."""
