"""The collector of cycles and instructions."""
