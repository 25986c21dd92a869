"""Building blocks for plugins: topologies, taints, NUMA hints, scores, and the status of Reservations."""
