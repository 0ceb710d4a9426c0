"""Measurements that anyone can run again; each writes JSON."""
