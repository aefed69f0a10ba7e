# SPDX-License-Identifier: Apache-2.0
"""Stands in for the framework: remembers its seed."""

seed = None


def manual_seed(number: int) -> None:
    global seed
    seed = number
