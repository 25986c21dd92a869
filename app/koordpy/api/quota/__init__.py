"""Quotas: their amounts, the contents of an ElasticQuota, and the pods that belong to it. Pure."""
