"""The meta twin: a copy of the model without data, run as the target device would run it."""
