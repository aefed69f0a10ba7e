# SPDX-License-Identifier: Apache-2.0
"""An evaluation while it goes: a local page, and metrics for Prometheus."""
