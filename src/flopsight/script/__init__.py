"""`flopsight run`: a user's script, run as `python` runs it, with one window of its steps profiled."""
