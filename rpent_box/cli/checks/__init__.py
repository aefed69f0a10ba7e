# SPDX-License-Identifier: Apache-2.0
"""What `rpent-box doctor` looks at, one file per part of the machine."""
