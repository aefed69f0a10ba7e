# SPDX-License-Identifier: Apache-2.0
import os
import signal

import pytest

from rpent_box.launch.signals import unwinding_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_and_gives_the_shells_exit_code(number: signal.Signals) -> None:
    cleaned = []

    def run() -> None:
        with unwinding_on_signals():
            try:
                os.kill(os.getpid(), number)
                signal.sigtimedwait([], 5)
            finally:
                # A second one, while cleaning, changes nothing.
                os.kill(os.getpid(), number)
                cleaned.append(True)

    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught:
        run()
    assert caught.value.code == 128 + number
    assert cleaned == [True]
    assert signal.getsignal(number) == before


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with unwinding_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
