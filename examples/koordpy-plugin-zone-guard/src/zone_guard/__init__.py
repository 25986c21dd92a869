"""Keep the pods of a namespace in the zones that its data may be processed in."""
