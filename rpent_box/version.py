# SPDX-License-Identifier: Apache-2.0
"""The version of this package, and of the protocol that boxes speak."""

__version__ = "0.1.0"

PROTOCOL_VERSION = 4
"""Travels in every hello: containers do not come from one checkout. A changed message raises it."""
