"""The cgroup files of a node: their table, layout, reading and writing."""
