# SPDX-License-Identifier: Apache-2.0
"""Structs and plain data that both sides of every border share."""
