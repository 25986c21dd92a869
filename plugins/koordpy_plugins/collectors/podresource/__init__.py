"""The collector of the usage of pods and containers."""
