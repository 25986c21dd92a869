"""What a pod gets on one node: amounts of its NUMA nodes, and CPUs."""
