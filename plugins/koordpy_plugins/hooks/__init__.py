"""Runtime hooks: the values that each wants in cgroup files of pods."""
