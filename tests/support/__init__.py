"""Servers, processes, dialogues and models that several test files share."""
