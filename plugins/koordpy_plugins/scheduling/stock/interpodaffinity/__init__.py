"""InterPodAffinity: affinity and anti-affinity to other pods."""
