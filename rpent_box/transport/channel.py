# SPDX-License-Identifier: Apache-2.0
"""Both ends of the line between a client and a worker.

client                                     worker
ClientChannel ── Dealer ══ ipc | tcp ══ Router ── ServerChannel ── Incoming
      └── Ring ═════════ /dev/shm ═════════ RingView ──────────────────┘
      RingView ═════════ results ═══════════ Ring
"""

from __future__ import annotations

from rpent_box.transport.client_channel import ClientChannel
from rpent_box.transport.connection import Incoming
from rpent_box.transport.server_channel import ServerChannel

__all__ = ["ClientChannel", "Incoming", "ServerChannel"]
