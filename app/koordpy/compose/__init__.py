"""Composes a process from parts: one client, one view of the cluster, one debug endpoint for all of them.
Commands, the simulation and tests create processes here and nowhere else.
"""
