"""The runtime hook CoreSched."""
