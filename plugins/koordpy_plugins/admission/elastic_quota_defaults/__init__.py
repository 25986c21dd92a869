"""Set the defaults of a new ElasticQuota."""
