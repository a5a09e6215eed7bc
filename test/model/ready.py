# SPDX-License-Identifier: MIT
"""The model of readiness: what search.py searches."""

# What ends is for the model's own judge to say, not for Spin's (-E).
FLAGS = ["-m20000", "-E"]

CONFIGURATIONS = {
    "leader": "WITH_FALLBACK=0",
    "two-waiters": "WITH_FALLBACK=0 WAITERS=2 LEAVES=1 FIRST_PARKED=1"
                   " SUBMITTERS=0",
    "deposed": "WITH_FALLBACK=0 WAITERS=2 CHALLENGES=1 CALLS=2 REQS=2"
               " FIRST_PARKED=2 SUBMITTERS=0 GIVEN=1",
    "lost": "EARLY=0 LATE=1 WAITERS=2 JUMPS=1 FIRST_PARKED=1 SUBMITTERS=0",
    "edges": "WITH_FALLBACK=0 WAITQS=2 REQS=2 FIRST_PARKED=1 WAS_ARMED=1"
             " CERTAIN=1 NEVER=1",
    "alone": "WAITERS=0 EARLY=0 LATE=2 WAS_LISTED=1",
    "adopted": "WAITERS=0 EARLY=0 LATE=2 WAS_ADOPTED=1 IDLES=1",
    "doubt": "WAITERS=0 EARLY=0 LATE=2 DOUBT=1",
    "directions": "WAITERS=0 EARLY=0 LATE=2 WAITQS=2 REQS=2 FIRST_PARKED=2"
                  " SUBMITTERS=0 WAS_ARMED=1 WAS_UNTRIED=1",
    "left-over": "EARLY=0 LATE=1 WAS_ADOPTED=1 WAS_LISTED=1 REQS=2"
                 " FIRST_PARKED=2 SUBMITTERS=0 GIVEN=2 BUDGET=1",
    "left-in-doubt": "EARLY=0 LATE=2 WAS_ADOPTED=1 WAS_LISTED=1 DOUBT=1"
                     " FIRST_PARKED=1 SUBMITTERS=0 LEAVES=1",
    "attended": "WITH_FALLBACK=0 WAITERS=0 ATTENDERS=1 CTXS=2 REQS=2"
                " FIRST_PARKED=2 SUBMITTERS=0 LEAVES=1",
    "handed-over": "WAITERS=0 ATTENDERS=1 EARLY=1 LATE=2 FIRST_PARKED=1"
                   " SUBMITTERS=0 LEAVES=1 STAYS_AWAY=1",
}

# Each in a configuration in which, without it, nothing is wrong.
FAULTS = {
    "LEAVER_TELLS_NOBODY": "two-waiters",
    "TWO_SLEEP_IN_AN_EPOLL": "deposed",
    "EVENTS_LOST_WITH_THE_LEADER": "lost",
    "EDGES_NOT_COMPARED": "edges",
    "WAITERS_NOT_TOLD": "leader",
    "WAITER_DOES_NOT_LOOK": "leader",
    "SLEEPS_UNARMED": "leader",
    "UNLISTED_WITHOUT_A_LOOK": "alone",
    "LOOKS_BEFORE_IT_COUNTS": "alone",
    "NO_LOOK_FOR_AN_ADOPTER": "adopted",
    "DISOWNED_WITHOUT_A_LOOK": "adopted",
    "SERVE_FORGETS_DOUBTS": "doubt",
    "SERVE_FORGETS_TO_ARM": "directions",
    "KICKED_LEFT_BY_THE_LIST": "left-over",
    "DOUBT_LEFT_BY_THE_LIST": "left-in-doubt",
    "ATTENDS_UNPREPARED": "attended",
    "LISTS_LOOKED_AT_BEFORE": "handed-over",
}
