"""The tree of ElasticQuotas as the webhooks see it."""
