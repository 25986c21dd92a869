"""From a KubeSchedulerConfiguration to profiles that run.

`config` reads the file, `koordinator_args` the arguments of Koordinator's plugins that are not installed,
`in_tree` lists kube-scheduler's own plugins, and `registry` creates plugins and frameworks: the `profiles`.
"""
