"""Watching a model run: which op, in which module, in which phase; facts only, no costs."""

from .hooks import release  # noqa: F401  refuses a torch that is too old before anything else touches it
