"""The collector of memory usage with page cache."""
