"""The rules of kinds.

`strategy` applies to all; pods, workloads, namespaces and so on have separate files, `smaller` has the rest.
`forms` are the JSON types that documents must have, `shapes` their fields, `columns` their table columns.
`crds` and `custom` are the kinds that clients define.
"""
