"""The framework of controllers: loops that bring objects of the cluster to what other objects say."""
