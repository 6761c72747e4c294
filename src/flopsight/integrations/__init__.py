"""One file a framework, imported by those who use it; nothing of ours imports them."""
