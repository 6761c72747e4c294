"""The interfaces of the older profilers, as thin layers over the one engine."""
