"""Routes only: decode, call, encode. No decisions."""
