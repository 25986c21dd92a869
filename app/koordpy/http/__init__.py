"""HTTP: `server/` is how requests come in, `routes/` is what they reach; the server knows no route."""
