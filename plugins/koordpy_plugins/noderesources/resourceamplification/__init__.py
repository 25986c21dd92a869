"""The ratios by which a node's allocatable resources are amplified."""
