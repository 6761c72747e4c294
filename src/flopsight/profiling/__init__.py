"""The import path that the users of the DeepSpeed profiler know."""
