"""SLO configuration: the strategies of nodes, their defaults, how they are merged, and their rules. Pure.

A strategy is described once, as a struct: its fields, their valid values and defaults.
Reading (`config`), merging (`merge`), checking (`validation`) and rendering (`rendering`) follow from that.
"""
