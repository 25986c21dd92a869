"""The runtime hook Resctrl."""
