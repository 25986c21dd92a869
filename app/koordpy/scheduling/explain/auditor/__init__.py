"""Follows each workload from its creation until it is scheduled, and tells of what goes wrong on the way.

`auditor` hears of pods and attempts, `record` holds one workload, `anomalies` has the rules, `metrics` the
series. Source: Koordinator, `pkg/scheduler/frameworkext/workloadauditor`.
"""
