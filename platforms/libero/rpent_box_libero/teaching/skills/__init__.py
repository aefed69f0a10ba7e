# SPDX-License-Identifier: Apache-2.0
"""The experts, one file per way of handling a thing."""
