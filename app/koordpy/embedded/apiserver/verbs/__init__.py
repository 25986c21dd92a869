"""The verbs: a module for each verb, and for each special subresource."""
