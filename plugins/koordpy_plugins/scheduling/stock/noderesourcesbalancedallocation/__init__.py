"""NodeResourcesBalancedAllocation: balance the utilization of a node's resources."""
