"""The collector of accelerators that their vendors' tools describe in files."""
