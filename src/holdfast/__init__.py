"""Holdfast: background work that is kept, fenced and operable, in your own PostgreSQL."""
