"""One file a framework, imported by its users; no other file of ours imports them."""
