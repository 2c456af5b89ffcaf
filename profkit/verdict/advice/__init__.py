"""Advice: commands, variables and edits that should empty a bucket of the account."""

from __future__ import annotations

from profkit.verdict.advice.producers import advise, can_be_tried

__all__ = ["advise", "can_be_tried"]
