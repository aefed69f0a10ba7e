# SPDX-License-Identifier: Apache-2.0
"""Findings as text."""

from __future__ import annotations

from collections.abc import Sequence

from rpent_box.cli.checks.finding import Finding

NAME = 16


def render_finding(finding: Finding) -> str:
    """Return one finding: its status first, its next step beneath."""
    first, *rest = finding.message.splitlines() or [""]
    lines = [f"{finding.status:<5} {finding.name:<{NAME}} {first}"]
    indent = " " * (5 + 1 + NAME + 1)
    lines += [indent + line for line in rest]
    if finding.next_step:
        lines.append(f"{indent}-> {finding.next_step}")
    return "\n".join(lines) + "\n"


def render_verdict(findings: Sequence[Finding]) -> str:
    """Return the last line."""
    failed = [finding.name for finding in findings if finding.status == "fail"]
    warned = [finding.name for finding in findings if finding.status == "warn"]
    if failed:
        return f"\nNot ready: {', '.join(failed)}.\n"
    if warned:
        return f"\nReady, with warnings about: {', '.join(warned)}.\n"
    return "\nReady.\n"
