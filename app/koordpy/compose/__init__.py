"""A process put together from parts: one client, one view of the cluster, one debug endpoint, whatever parts
it has. Nothing else composes; commands, the simulation and tests take processes from here.
"""
