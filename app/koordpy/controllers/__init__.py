"""The framework of controllers: loops that reconcile objects of the cluster with other objects."""
