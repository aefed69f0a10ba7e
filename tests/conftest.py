# SPDX-License-Identifier: Apache-2.0
"""What every test may rely on, however the tests were started."""

import signal

# `nohup` and some job runners ignore it, and every program that a test starts would inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
