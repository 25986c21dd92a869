"""Whether anything of a cluster is handed out twice, from API objects alone.

The audit reads what the scheduler wrote (annotations, status) and what nodes have (allocatable, Devices,
NodeResourceTopologies), and adds up by itself: it shares the reading of objects with the rest of koordpy, but
neither state nor arithmetic with the plugins that allocate, so that it cannot repeat their mistakes.
"""
