"""DefaultEvictor: which pods may be evicted, and their eviction through the API."""
