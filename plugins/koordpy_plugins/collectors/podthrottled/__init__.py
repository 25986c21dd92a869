"""The collector of CPU throttling."""
