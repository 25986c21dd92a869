"""Fine-grained CPUs and NUMA nodes: which CPUs of a node a pod gets, and amounts on NUMA nodes."""
