# SPDX-License-Identifier: Apache-2.0
"""A platform and a backend small enough to run whole runs in a second, for tests."""
