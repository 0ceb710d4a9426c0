"""Failures that can be operated: fingerprints to audits, on a real database."""
