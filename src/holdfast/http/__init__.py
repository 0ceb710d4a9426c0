"""The HTTP API: a thin face over `ops` and the store. No rule of a task lives here."""
