"""The HTTP API, a thin layer over `ops` and `store`. It contains no rule about tasks."""
