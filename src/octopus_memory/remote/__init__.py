"""The Python client of the service: the same calls as the embedded memory, over HTTP."""

from .memory import AsyncRemoteMemory, RemoteMemory, RemoteScope

__all__ = ["AsyncRemoteMemory", "RemoteMemory", "RemoteScope"]
