"""The routes of the HTTP API, one module for each resource."""
