"""`koordpy doctor`: compares a cluster, and kube-scheduler's configuration, with the needs of the enabled
features, and reports what is missing, which feature needs it, and how to fix it.
"""
