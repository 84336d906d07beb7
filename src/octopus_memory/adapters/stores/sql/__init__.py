"""The SQL store: schema, rows, statements, and one method a binding."""
