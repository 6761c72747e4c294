"""Profiling inside the user's own loop: one call (`FlopsProfiler`) or a window of steps (`step_profiler`)."""
