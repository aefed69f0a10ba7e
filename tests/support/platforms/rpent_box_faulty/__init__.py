# SPDX-License-Identifier: Apache-2.0
"""Small platforms: a sound one, and one for each fault that the conformance suite must find."""
