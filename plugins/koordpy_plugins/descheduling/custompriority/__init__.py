"""CustomPriority: move pods from nodes of an expensive tier to nodes of a cheaper one."""
