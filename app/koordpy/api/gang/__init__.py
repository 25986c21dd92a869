"""Gangs as users write them: `membership` of pods, `settings` from pods and PodGroups, `topology_spec`."""
