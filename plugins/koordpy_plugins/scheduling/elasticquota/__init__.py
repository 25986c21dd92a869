"""ElasticQuota: what groups of pods may use together, in trees of quotas."""
