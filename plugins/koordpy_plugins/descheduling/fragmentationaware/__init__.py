"""FragmentationAware: evict the pod that best evens out how much of each resource a node has left."""
