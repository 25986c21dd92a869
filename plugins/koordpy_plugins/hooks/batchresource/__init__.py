"""The runtime hook BatchResource."""
