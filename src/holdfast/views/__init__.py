"""Reads tasks and figures for people and metrics. It writes samples and counts, never tasks."""
