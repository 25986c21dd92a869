"""What a pod asks of devices: its amounts, normalised, and its annotations about devices."""
