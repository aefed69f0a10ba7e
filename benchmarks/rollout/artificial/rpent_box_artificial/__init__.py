# SPDX-License-Identifier: Apache-2.0
"""A policy that replays, and a simulator that only waits: what a benchmark needs of either."""
