# SPDX-License-Identifier: Apache-2.0
"""Demonstrations for small models: a scripted expert, fresh scenes, and a recorder."""
