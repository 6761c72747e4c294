"""What the public functions run."""
