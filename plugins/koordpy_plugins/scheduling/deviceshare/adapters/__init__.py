"""Annotations for the device plugins of vendors, which then hand out the devices that were allocated."""
