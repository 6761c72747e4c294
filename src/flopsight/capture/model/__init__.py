"""The user's model: how to run it, which modules it has, and how to restore it after a run."""
