"""Keep the tree of ElasticQuotas consistent."""
