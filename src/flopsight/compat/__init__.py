"""The faces that users of the older profilers know: thin, over the one engine."""
