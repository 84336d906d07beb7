"""The MCP server: the memory of one user as tools that a model calls."""
