"""What plugins compute with: topologies, taints, NUMA hints, scores, and the status of Reservations."""
