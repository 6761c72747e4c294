"""The least time of work on a device, and how far a run is from it."""
