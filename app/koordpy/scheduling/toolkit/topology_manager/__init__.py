"""The NUMA topology manager: one place on a node that suits all of a pod's resources."""
