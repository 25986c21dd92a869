"""Preemption by a gang: pods are evicted only if all members that have no node yet find one then.

`job_preemption` is the flow, `preemptor` describes the gang, `hypothetical_nodes` are the nodes without the
possible victims, `placement` puts the members on them, `victims` decides who has to go, and `nominations`
writes what the members are promised. Rules: Koordinator,
`pkg/scheduler/plugins/coscheduling/core/preemption.go`.
"""
