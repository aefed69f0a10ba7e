# SPDX-License-Identifier: Apache-2.0
"""Evaluations: whole suites, many simulators around one batching worker, resumable."""
