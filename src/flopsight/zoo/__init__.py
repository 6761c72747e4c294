"""The embedded models: ours to read, random to begin with, and with the inputs of the published profiles."""

from .catalogue import Entry, Example, build, entries, example_inputs, factory, find, names

__all__ = ["Entry", "Example", "build", "entries", "example_inputs", "factory", "find", "names"]
