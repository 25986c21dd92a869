"""InterPodAffinity: pods that want to be near other pods, or far from them."""
