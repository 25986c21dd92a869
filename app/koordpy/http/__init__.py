"""HTTP: `server/` receives requests, `routes/` answers them; the server does not depend on routes."""
