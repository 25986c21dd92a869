"""From a KubeSchedulerConfiguration to profiles that run.

`config` reads the file, `in_tree` lists kube-scheduler's own plugins, and `registry` creates plugins and
frameworks: the `profiles`.
"""
