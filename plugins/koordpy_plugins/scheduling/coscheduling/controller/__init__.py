"""The controller of the status of PodGroups."""
