"""Fill in what a new ElasticQuota leaves out."""
