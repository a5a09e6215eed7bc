/* SPDX-License-Identifier: MIT */
/*
 * Who looks after what is parked: [MB:parked], [MB:led]
 *
 * A thread submits a request that gets parked, and reports it: uaio_ready_expect(),
 * announce(). A waiter enters, and may lead; or it stops leading: enter(),
 * uaio_lead_locked(), let_go_locked(). The fallback thread leaves a queue that is
 * on its list, disowns one, or adopts one: leave_listed(), disown_idle_locked(),
 * adopt().
 *
 * In the first half of the scenarios keepers leave, and the request has to have one
 * in the end: the list of the fallback thread, a leader or an adopter. In the second
 * half the queue stays on the list, and threads go to sleep in the epoll or without
 * it: the request has to be armed if they do the former, and a waiter that does
 * the latter is told, unless the queue is adopted.
 *
 * The threads change what is under a lock in one step, with the order that the lock
 * makes. That a leader is deposed by others, timers and native requests are left out.
 */
#define LOCS 3
#define THREADS 3
#define HIST 8
#define LOCKS 3
#include "weak.pml"

#define NR_PARKED 0
#define KEEPERS 1 /* bits: */
#define LIST 1
#define ADOPTER 2
#define LEADER 4
#define NR_WAITERS 2

#define SUBMITTER 0
#define WAITER 1
#define FALLBACK 2

/* locks, and what is under them */
#define OF_FALLBACK 0
bool is_listed, is_adopted;
#define OF_QUEUE 1
bool is_listening, is_leading, is_told;
bool is_entering; /* the waiter has the lock for several steps */
#define OF_READY 2
bool is_unarmed;

bool is_asleep;   /* the waiter, and it does not lead */
bool was_watched; /* the submitter has found that a thread sleeps in the epoll */
byte nr_over;

#define UNLISTED 0      /* the fallback thread leaves a queue */
#define LET_GO_LISTED 1 /* that, and a leader leaves */
#define DISOWNED 2
#define ENTERED 3       /* a waiter enters */
#define ADOPTED 4
byte scenario;
#define keepers_leave (scenario <= DISOWNED)

#define without(b) (r - (r & (b)))
#define with(b) (without(b) + (b))

/* list_locked() */
inline list(t)
{
	atomic {
		take(t, OF_FALLBACK);
		if
		:: !is_listed ->
			is_listed = true;
			rmw(t, KEEPERS, at(LIST_SAYS, SEQ_RMW), r, with(LIST))
		:: else
		fi;
		give(t, OF_FALLBACK)
	}
}

inline arm(t)
{
	atomic {
		take(t, OF_READY);
		is_unarmed = false;
		give(t, OF_READY)
	}
}

proctype submitter()
{
	byte r;

	/* uaio_ready_expect() */
	rmw(SUBMITTER, NR_PARKED, at(EXPECT, SEQ_RMW), r, r + 1);
	load(SUBMITTER, KEEPERS, at(EXPECT_LOOK, SEQ_LOAD), r);
	if
	:: (r & (LIST | ADOPTER)) == 0 && !broken(EXPECTS_ONLY) -> list(SUBMITTER)
	:: else
	fi;
	if
	:: keepers_leave -> goto out
	:: else
	fi;
	/* uaio_ready_park() */
	atomic {
		take(SUBMITTER, OF_READY);
		is_unarmed = true;
		give(SUBMITTER, OF_READY)
	};
	/* announce() */
	load(SUBMITTER, KEEPERS, at(ANNOUNCE, SEQ_LOAD), r);
	if
	:: (r & (LEADER | ADOPTER)) != 0 ->
		was_watched = true;
		arm(SUBMITTER)
	:: else ->
		load(SUBMITTER, NR_WAITERS, at(ANNOUNCE_WAITERS, SEQ_LOAD), r);
		if
		:: r > 0 && !broken(ANNOUNCES_NOTHING) ->
			/* uaio_waiters_pass_on() */
			atomic {
				!is_entering ->
				take(SUBMITTER, OF_QUEUE);
				is_told = is_listening;
				give(SUBMITTER, OF_QUEUE)
			}
		:: else
		fi
	fi;
out:
	is_done(SUBMITTER);
	nr_over++
}

proctype waiter()
{
	byte r;

	if
	:: scenario == LET_GO_LISTED -> goto let_go
	:: scenario == ENTERED
	:: else -> goto out
	fi;
	/* enter() */
	atomic {
		take(WAITER, OF_QUEUE);
		is_entering = true;
		is_listening = true;
		rmw(WAITER, NR_WAITERS, at(ENTER, SEQ_RMW), r, r + 1)
	};
	/* uaio_lead_locked() */
	load(WAITER, NR_PARKED, at(LEAD_LOOK, SEQ_LOAD), r);
	atomic {
		if
		:: r > 0 && !broken(ENTERS_ONLY) ->
			is_leading = true;
			rmw(WAITER, KEEPERS, at(LEAD, SEQ_RMW), r, with(LEADER))
		:: else -> is_asleep = true
		fi;
		is_entering = false;
		give(WAITER, OF_QUEUE)
	};
	if
	:: is_leading && !broken(LEADS_UNARMED) -> arm(WAITER)
	:: else
	fi;
	goto out;
let_go:
	/* What was parked is complete. */
	rmw(WAITER, NR_PARKED, RLX, r, r - 1);
	/* let_go_locked() */
	atomic {
		take(WAITER, OF_QUEUE);
		is_leading = false;
		rmw(WAITER, KEEPERS, at(LET_GO, SEQ_RMW), r, without(LEADER));
		give(WAITER, OF_QUEUE)
	};
	load(WAITER, NR_PARKED, at(LET_GO_LOOK, SEQ_LOAD), r);
	if
	:: r > 0 && !broken(LETS_GO_ONLY) -> list(WAITER)
	:: else
	fi;
out:
	is_done(WAITER);
	nr_over++
}

proctype fallback()
{
	byte r, keepers;

	if
	:: scenario <= LET_GO_LISTED ->
		/* leave_listed() */
		atomic {
			take(FALLBACK, OF_FALLBACK);
			is_listed = false;
			rmw(FALLBACK, KEEPERS, at(LEAVE, SEQ_RMW), r, without(LIST));
			give(FALLBACK, OF_FALLBACK)
		};
		/* is_left_to_us() */
		load(FALLBACK, NR_PARKED, at(LEAVE_LOOK, SEQ_LOAD), r);
		load(FALLBACK, KEEPERS, at(LEAVE_LED, SEQ_LOAD), keepers);
		if
		:: r > 0 && (keepers & LEADER) == 0 && !broken(LEAVES_ONLY) ->
			list(FALLBACK)
		:: else
		fi
	:: scenario == DISOWNED ->
		/* disown_idle_locked(): it has found that nothing is parked */
		atomic {
			take(FALLBACK, OF_FALLBACK);
			is_adopted = false;
			rmw(FALLBACK, KEEPERS, at(DISOWN, SEQ_RMW), r, without(ADOPTER));
			give(FALLBACK, OF_FALLBACK)
		};
		load(FALLBACK, NR_PARKED, at(DISOWN_LOOK, SEQ_LOAD), r);
		if
		:: r > 0 && !broken(DISOWNS_ONLY) -> list(FALLBACK)
		:: else
		fi
	:: scenario == ADOPTED ->
		/* adopt(), uaio_care_serve() */
		atomic {
			take(FALLBACK, OF_FALLBACK);
			is_adopted = true;
			rmw(FALLBACK, KEEPERS, at(ADOPT, SEQ_RMW), r, with(ADOPTER));
			give(FALLBACK, OF_FALLBACK)
		};
		if
		:: !broken(ADOPTS_UNARMED) -> arm(FALLBACK)
		:: else
		fi
	:: else
	fi;
	is_done(FALLBACK);
	nr_over++
}

init
{
	atomic {
		take_fault();
		first_value(NR_PARKED, 0);
		first_value(NR_WAITERS, 0);
		first_value(KEEPERS, LIST);
		is_listed = true;
		if
		:: scenario = UNLISTED
		:: scenario = LET_GO_LISTED;
			is_leading = true;
			first_value(KEEPERS, LIST + LEADER);
			first_value(NR_PARKED, 1)
		:: scenario = DISOWNED;
			is_listed = false;
			is_adopted = true;
			first_value(KEEPERS, ADOPTER)
		:: scenario = ENTERED
		:: scenario = ADOPTED
		fi;
		run submitter();
		run waiter();
		run fallback()
	}
	timeout;
	assert(nr_over == 3);
	if
	:: keepers_leave -> assert(is_listed || is_adopted || is_leading)
	:: else ->
		assert(!is_unarmed || !(is_adopted || is_leading) || is_told);
		assert(!is_asleep || is_told || was_watched)
	fi
}
