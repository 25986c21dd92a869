"""InterPodAffinity: pods that are to be near other pods, or far from them."""
