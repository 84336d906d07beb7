"""The statements of a SQL store, each called inside one transaction."""
