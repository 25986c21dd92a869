"""The collector of memory that was not used for a while."""
