# SPDX-License-Identifier: Apache-2.0
"""Stands in for the model's package, in a server process of ours."""
