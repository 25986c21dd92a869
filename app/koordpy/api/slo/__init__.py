"""SLO configuration: the strategies of nodes, their defaults, how they are merged, and their rules. Pure.

A strategy is described once, as a struct: its fields, the values they may take and what they are by default.
Reading (`config`), merging (`merge`), checking (`validation`) and rendering (`rendering`) follow from that.
"""
