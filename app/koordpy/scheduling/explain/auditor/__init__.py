"""Follows each workload from its creation until it is scheduled, and reports anomalies.

`auditor` observes pods and attempts, `record` holds one workload, `anomalies` has the rules, `metrics` the
series. Source: Koordinator, `pkg/scheduler/frameworkext/workloadauditor`.
"""
