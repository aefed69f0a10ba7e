# SPDX-License-Identifier: Apache-2.0
"""What a finished or unfinished run says: figures, an HTML report, tables, comparisons."""
