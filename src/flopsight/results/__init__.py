"""What a user holds: plain values, frozen and without torch."""
