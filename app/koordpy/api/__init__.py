"""Kubernetes and Koordinator objects, quantities, selectors, patches. Pure, no I/O."""
