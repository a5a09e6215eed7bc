# SPDX-License-Identifier: MIT
"""The model of the work queue: what search.py searches."""

FLAGS = ["-m10000"]

CONFIGURATIONS = {
    "growing": "NORMAL=1 ITEMS=3 SUBMITTERS=2 REFUSES=1 TIMES_OUT=1 OTHER=1"
               " LONG_HELP=1",
    "two": "NORMAL=2 ITEMS=3 BATCH=2 FOREVER=1 REFUSES=1 CANCELS=1",
    "limits": "NORMAL=1 ITEMS=3 LIMITS=1 REFUSES=1 TIMES_OUT=1",
    "limits-of-two": "NORMAL=2 ITEMS=2 LIMITS=1 REFUSES=1 TIMES_OUT=1",
    "raised": "NORMAL=2 ITEMS=3 BATCH=2 LIMITS=2 REFUSES=1 TIMES_OUT=1",
    "list": "FIXED=1 NORMAL=1 ITEMS=3 BATCH=3 FOREVER=1 CANCELS=1",
    "lists": "FIXED=2 NORMAL=0 ITEMS=3 BATCH=2 FOREVER=1",
    "in-turn": "FIXED=1 NORMAL=1 ITEMS=3 BATCH=3 FOREVER=1 REFUSES=1"
               " ROUND_ROBIN=1",
    "slow-owner": "FIXED=1 NORMAL=1 ITEMS=3 STALE=1",
    "ring": "FIXED=1 NORMAL=0 ITEMS=5 RING=1 CANCELS=1",
}

# Each in a configuration in which, without it, nothing is wrong.
FAULTS = {
    "NO_RECHECK": "list",
    "NO_HAND_OFF": "list",
    "NO_STEAL": "list",
    "CANCEL_WITHOUT_COMPARE": "ring",
    "TAKE_WITHOUT_EXCHANGE": "ring",
    "HEAD_BEFORE_EXCHANGE": "ring",
    "TAIL_BEFORE_SLOT": "ring",
    "WAKE_WITHOUT_CREDIT": "two",
    "CREDIT_WITHOUT_GOING_IDLE": "two",
    "LEAVE_WITH_CREDIT": "growing",
    "SEQUENCE_AFTER_UNLOCK": "two",
    "SLEEP_WITHOUT_COMPLETING": "list",
    "REFUSED_WITHOUT_ENSURE": "two",
    "MANAGER_NEVER_ARMED": "growing",
    "PROMISED_BEFORE_IT_EXISTS": "growing",
    "WAITS_FOR_THE_HELPER": "growing",
    "OTHERS_PROMISE": "raised",
    "NO_HELP_AT_ZERO": "limits",
    "GIVE_BACK_CALLS_OFF": "raised",
}
