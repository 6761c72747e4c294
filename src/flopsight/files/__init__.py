"""What is read and written: files, and text that is safe to show."""
