"""`koordpy demo`: a whole cluster on this machine, and a story told on it.

`cluster.py` is the cluster, `access.py` how it is reached from outside, `workload.py` what runs on it at
first, `batch_resources.py` what nodes offer to batch pods, `story.py` the steps that are shown.
"""
