"""Preemption within a quota: a pod evicts less important pods of its own quota.

`quota_limit` follows what the quota would use without some pods, `quota_preemption` are the points of the
plugin. Rules: Koordinator, `pkg/scheduler/plugins/elasticquota/preempt.go`.
"""
