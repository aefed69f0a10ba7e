# SPDX-License-Identifier: Apache-2.0
"""Long programs that make something, one after the other: run, followed, written down."""
