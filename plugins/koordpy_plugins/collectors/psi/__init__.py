"""The collector of pressure stall information of pods and containers."""
