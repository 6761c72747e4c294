"""Records -> profile -> tables: what the numbers mean and which rows to show; nothing here imports torch."""
