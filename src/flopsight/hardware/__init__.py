"""What a device can do: sourced peaks, and which device this is."""
