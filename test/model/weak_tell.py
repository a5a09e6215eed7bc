# SPDX-License-Identifier: MIT
"""Telling waiters, searched by weak.py."""

LOCKED = ("RLX", "a waiter takes the lock under which it was told before its memory is "
          "used again")

NEEDS = {
    "LEAD_WOKEN": LOCKED,
    "WAIT_WOKEN": LOCKED,
    "WOKEN_LEADER": LOCKED,
    "WOKEN": LOCKED,
}
