"""A short dialogue about leave days that many tests store."""

from __future__ import annotations

QUESTION = "How many leave days do I have left? Please be formal with me."
ANSWER = "You have 12 days remaining."
TALK = [("user", QUESTION), ("assistant", ANSWER)]
