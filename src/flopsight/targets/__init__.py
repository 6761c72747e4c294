"""A model named by text: what the text means, what can be said of it without torch, and how it is built."""
