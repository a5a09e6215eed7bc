# SPDX-License-Identifier: MIT
"""Tickets and the completion ring, searched by weak.py."""

NEEDS = {
    "TAKE_CAS": ("RLX", "the load of the number that it compares has acquired"),
    "ROOM_TAIL": ("RLX", "the room is a count of events, none of which is read; "
                  "it is one function with POP_TAIL"),
    "PUSH_TAIL": ("RLX", "events that are hidden are counted, and not read"),
}
