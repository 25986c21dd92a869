"""`koordpy doctor`: compares a cluster, and kube-scheduler's configuration, with what the features that are
on need, and says what is missing for what and how to mend it.
"""
