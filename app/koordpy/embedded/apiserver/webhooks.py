ResolveService = object
class WebhookCaller:
    def __init__(self, catalog, resolve): pass
    async def mutate(self, attrs, new, old): return new
    async def validate(self, attrs, new, old): pass
    async def close(self): pass
