"""The vocabulary: Kubernetes and Koordinator objects, quantities, selectors, patches. Pure functions, no I/O."""
