"""Several processes that run a model together."""
