# SPDX-License-Identifier: MIT
"""The model of parking: what search.py searches."""

# What ends is for the model's own judge to say, not for Spin's (-E).
FLAGS = ["-m20000", "-E"]

CONFIGURATIONS = {
    "ready-meanwhile": "FEEDS=1",
    "cancelled": "CANCELS=1",
    "cancelled-ready": "CANCELS=1 FEEDS=1",
    "closed": "CLOSES=1",
    "closed-ready": "CLOSES=1 FEEDS=1",
    "started-closed": "LOCKED=0 CLOSES=1",
    "started-closed-ready": "LOCKED=0 CLOSES=1 FEEDS=1",
}

# Each in a configuration in which, without it, nothing is wrong.
FAULTS = {
    "EXPECTS_LATE": "ready-meanwhile",
    "ANNOUNCES_NOTHING": "ready-meanwhile",
    "UNWANTED_NOT_LOOKED_AT": "cancelled",
    "LOOKS_BEFORE_THE_LOCK": "cancelled",
    "UNLOCKS_BEFORE_IT_PARKS": "cancelled",
    "REFUSED_STAYS_COUNTED": "cancelled",
    "PINS_LATE": "closed",
    "UNPINS_BEFORE_IT_ANNOUNCES": "closed-ready",
    "CLOSING_NOT_LOOKED_AT": "started-closed",
    "LOOKS_BEFORE_IT_IS_PARKED": "started-closed",
    "FINISHES_WITHOUT_THE_PINS": "closed-ready",
}
