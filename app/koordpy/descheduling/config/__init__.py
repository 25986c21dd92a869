"""The DeschedulerConfiguration file, and what is done to it before it runs."""
