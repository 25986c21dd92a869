"""The peak predictor: what pods, priority classes and the system of the node will need at most.

`histogram.py` is the distribution of one resource, with decaying weights; `models.py` trains one per pod,
node, priority class and system, and answers percentiles; `checkpoints.py` keeps them in files; `service.py`
runs all of it; `predictors.py` derives from it what prod pods leave unused. Source: Koordinator,
`pkg/koordlet/prediction` and `pkg/util/histogram`.
"""
