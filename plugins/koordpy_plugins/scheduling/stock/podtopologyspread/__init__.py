"""PodTopologySpread: spread the pods of a workload evenly over topology domains."""
