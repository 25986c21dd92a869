"""The cluster floor on an API server: what it reads, writes and survives over HTTP."""
