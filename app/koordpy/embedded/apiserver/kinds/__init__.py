"""The rules of kinds.

`strategy` is what holds for all; pods, workloads, namespaces and so on have a file of their own, `smaller`
has the rest. `forms` are the JSON types that documents must have, `shapes` their fields, `columns` what
tables show of them. `crds` and `custom` are the kinds that clients define.
"""
