"""The MCP server: one user's memory as tools that a model calls, over standard input and output."""
