"""The NUMA topology manager: one NUMA affinity on a node that suits all of a pod's resources."""
