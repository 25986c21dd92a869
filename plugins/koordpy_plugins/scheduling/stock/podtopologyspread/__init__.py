"""PodTopologySpread: pods of a workload should be spread evenly over zones, nodes and the like."""
