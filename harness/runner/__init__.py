"""The one loop over executions, and its parts: who may drive one, performing, the last check before an action leaves, the writing down."""

from harness.runner.loop import Asking, Driven, Runner

__all__ = ["Asking", "Driven", "Runner"]
