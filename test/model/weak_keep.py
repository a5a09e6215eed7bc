# SPDX-License-Identifier: MIT
"""Who looks after what is parked, searched by weak.py."""

LOCKED = ("RLX", "what is to be armed changes under one lock, which orders what both "
          "threads do before they take it")

NEEDS = {
    "LIST_SAYS": ("RLX", "a thread that does not see it takes the lock, and finds "
                  "the queue on the list"),
    "ANNOUNCE": LOCKED,
    "LEAD": LOCKED,
    "ADOPT": LOCKED,
    "LEAVE_LED": ("RLX", "a leader that is seen, and leaves, looks itself"),
}
