"""Access to PostgreSQL: connections, statements, the schema. It knows nothing about tasks."""
