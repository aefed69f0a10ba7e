# SPDX-License-Identifier: Apache-2.0
"""RPent's spellings of our options, so that its commands work here unchanged."""

from __future__ import annotations

import typer
from typer.core import TyperCommand

RPENT_SPELLINGS = {
    "--am-backend": "--backend",
    "--am-endpoint": "--endpoint",
    "--am-checkpoint": "--checkpoint",
    "--am-python": "--python",
    "--am-root": "--root",
    "--am-cuda-device": "--cuda-device",
    "--robot": "--platform",
}


class Command(TyperCommand):
    """A command that also reads RPent's spellings."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, in_our_spelling(args))


def in_our_spelling(words: list[str]) -> list[str]:
    """Replace RPent's option names; words after `--` are a backend's own and stay."""
    end = words.index("--") if "--" in words else len(words)
    return [_renamed(word) for word in words[:end]] + words[end:]


def _renamed(word: str) -> str:
    flag, equals, value = word.partition("=")
    return RPENT_SPELLINGS.get(flag, flag) + equals + value
