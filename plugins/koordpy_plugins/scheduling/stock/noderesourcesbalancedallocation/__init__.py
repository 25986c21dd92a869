"""NodeResourcesBalancedAllocation: resources of a node should be used up evenly."""
