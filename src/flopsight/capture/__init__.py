"""Watching a model run: which op, in which module, in which phase; facts only, no costs."""
