"""The runtime hook OOMScoreAdj."""
