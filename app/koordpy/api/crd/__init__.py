"""Structural schemas of CustomResourceDefinitions, applied to objects.

A schema is read once into a tree; the tree then drops unknown fields, fills in defaults and validates
documents, in this order, as kube-apiserver does. Source of the rules and of the wording: Kubernetes,
`k8s.io/apiextensions-apiserver/pkg/apiserver/schema` and `k8s.io/kube-openapi/pkg/validation`. Rules written
in CEL (`x-kubernetes-validations`) cannot be evaluated: `problems` reports them.

A general JSON Schema library would cover only validation, and there the types, formats, list types and
messages are Kubernetes' own: every keyword would have to be replaced.
"""

from .acceptance import accepting
from .errors import FieldError, SchemaError
from .problems import problems
from .schema import Schema

__all__ = ["FieldError", "Schema", "SchemaError", "accepting", "problems"]
