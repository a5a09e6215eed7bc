/* SPDX-License-Identifier: MIT */
/*
 * Readiness: parking, edges, arming, running what is kicked, leading, falling
 * back
 *
 * One file, one context or two, each with one watch. The steps have the names
 * that the code has, [step: ...]; ready.py has the configurations that are
 * searched in full, and the faults (the names that only #ifdef knows here) of
 * which each must be found. What no configuration there turns on is here to be
 * tried with Spin by hand.
 *
 * Proved, of each configuration, for every order of the steps:
 *
 *   - No wake-up is lost: when nothing moves any more, and the fallback thread
 *     has come by itself as often as that may help, each request is completed.
 *     The file gets ready once for each.
 *   - A waiter that was told has left its sleep.
 *   - A request is completed once; a wait queue is tried by one thread at a
 *     time, and in order (assertions of begin_try() and post()).
 *
 * Not proved:
 *
 *   - Memory order: all accesses are in one order here (doc/memory-model.md).
 *   - Any time: what takes patience happens, or not. The fallback thread looks
 *     EARLY times while others move, and LATE times when nothing else does.
 *   - What the policy takes into account (whether callers attend to the context,
 *     whether a try pays): chance decides.
 *   - Polls, which all are tried, and are told what the epoll said; files that
 *     epoll refuses for good, terminals, workers that own a wait queue; the
 *     commons.
 *   - Descriptors that move, and the end of a poller (poller.h); pins and the
 *     memory of a context; a leader that never comes back and that no waiter
 *     challenges; a thread that makes a call after it has left a sleep.
 *   - Several watches of a context: which of them is taken first.
 */
#ifndef CTXS
#define CTXS 1 /* contexts */
#endif
#ifndef WAITQS
#define WAITQS 1 /* directions of the one file */
#endif
#ifndef REQS
#define REQS 1 /* requests; with two wait queues the first is on the other */
#endif
#ifndef SUBMITTERS
#define SUBMITTERS 1
#endif
#ifndef BATCH
#define BATCH 1 /* requests of one submission */
#endif
#ifndef WAITERS
#define WAITERS 1 /* threads that call io_getevents */
#endif
#ifndef ATTENDERS
#define ATTENDERS 0 /* a thread that sleeps in its own poll, and leads all contexts */
#endif
#ifndef STAYS_AWAY
#define STAYS_AWAY 0 /* once its sleep has been ended, it does not come back */
#endif
#ifndef WITH_FALLBACK
#define WITH_FALLBACK 1
#endif
#ifndef FIRST_PARKED
#define FIRST_PARKED 0 /* so many requests are parked before anything runs */
#endif
#ifndef GIVEN
#define GIVEN 0 /* times that the file has got ready before anything runs */
#endif
#ifndef CALLS
#define CALLS 1 /* of the first waiter; others call once */
#endif
#ifndef LEAVES
#define LEAVES 0 /* ends of sleeps, by time or by a signal */
#endif
#ifndef LOOKS
#define LOOKS 0 /* calls that do not wait */
#endif
#ifndef EARLY
#define EARLY 1 /* looks of the fallback thread before all else is at rest */
#endif
#ifndef LATE
#define LATE 4 /* and after that */
#endif
#ifndef IDLES
#define IDLES 0 /* times that it finds nothing to do for long */
#endif
#ifndef BUDGET
#define BUDGET 3 /* tries of one run */
#endif
#ifndef REFUSALS
#define REFUSALS 0 /* of epoll_ctl() */
#endif
#ifndef CHALLENGES
#define CHALLENGES 0 /* leaders that are taken for lost, and are only slow */
#endif
#ifndef JUMPS
#define JUMPS 0 /* the first waiter leaves its sleep, and then others call */
#endif
/* Booleans: configure these with -DNAME=1. */
#ifndef DOUBT
#define DOUBT 0 /* the file polls ready all the time */
#endif
#ifndef UNTRIED
#define UNTRIED 0 /* submitters may leave the try to others */
#endif
#ifndef NEVER
#define NEVER 0 /* the other wait queue never gets ready */
#endif
#ifndef WAS_ARMED
#define WAS_ARMED 0 /* wait queues, as bits */
#endif
#ifndef WAS_UNTRIED
#define WAS_UNTRIED 0 /* those that are parked first have not been tried */
#endif
#ifndef CERTAIN
#define CERTAIN 0 /* what polls ready can be made: it is not asked when parking */
#endif
#ifndef WAS_LISTED
#define WAS_LISTED 0
#endif
#ifndef CLOSES
#define CLOSES 0 /* the context goes away */
#endif
#ifndef WAS_ADOPTED
#define WAS_ADOPTED 0
#endif

#define bit(l) (1 << (l))
#define ALL ((1 << WAITQS) - 1)
#if WAITQS == 2
#define waitq_of(r) ((r) == 1)
#else
#define waitq_of(r) 0
#endif
#if CTXS == 2
#define ctx_of(r) ((r) % 2)
#else
#define ctx_of(r) 0
#endif

/* of a request */
#define NEW 0
#define PARKED 1
#define TRIED 2
#define DONE 3
byte state[REQS + 1];

/* of the file, and its wait queues */
byte tokens[WAITQS];
chan waitqs[WAITQS] = [REQS] of { byte };
#define waitq(l) waitqs[l]
#if WAITQS == 1
#define polls_bits (polls(0) -> 1 : 0)
#else
#define polls_bits ((polls(0) -> 1 : 0) + (polls(1) -> 2 : 0))
#endif
bool is_running[WAITQS], is_kicked[WAITQS];
bool is_trying[WAITQS]; /* a ghost */
#if CLOSES
bool is_closing, is_parking, is_marked[REQS + 1];
#define is_cancelled(r) is_marked[r]
#else
#define is_cancelled(r) false
#endif
byte nr_edges;
#define polls(l) (tokens[l] > 0 || (DOUBT && (l) == 0))

#if WAITQS == 1
#define wanted (len(waitq(0)) > 0 -> 1 : 0)
#else
#define wanted ((len(waitq(0)) > 0 -> 1 : 0) + (len(waitq(1)) > 0 -> 2 : 0))
#endif

/* of the watch of a context */
#define IDLE 0
#define KICKED 1
#define FRESH 2
#define UNARMED 3
#define REFUSED 4
byte place[CTXS], todo[CTXS], armed[CTXS];
bool is_unarmed[CTXS], is_untried[CTXS];

/* of its epoll: the file is on its list; the eventfd is up */
bool is_pending[CTXS], is_up[CTXS];
#define has_events(c) (is_pending[c] && (armed[c] & polls_bits))
#define is_readable(c) (is_up[c] || has_events(c))

/* of a context */
bool is_draining[CTXS];
byte nr_parked[CTXS], nr_waiters[CTXS], unread[CTXS];
bool is_led[CTXS]; /* a bit of keepers, as are is_listed, is_adopted */
bool lock[CTXS]; /* of the group */
byte leader[CTXS]; /* 0, or which waiter, counted from 1 */

/* of a waiter */
bool is_listening[WAITERS + 1], is_woken[WAITERS + 1], leads[WAITERS + 1];
bool is_told[WAITERS + 1], is_asleep[WAITERS + 1];
byte nr_calls[WAITERS + 1];
#define is_gone(w) (nr_calls[w] == 0)
#if CTXS == 2
#define ctx_of_waiter(w) ((w) % 2)
#else
#define ctx_of_waiter(w) 0
#endif

/* of the fallback thread */
bool slock;
bool is_listed[CTXS], is_adopted[CTXS], is_urgent[CTXS];
bool is_nested[CTXS], is_nested_pending[CTXS];
bool is_ticking, is_swoken;

/* what is left to chance */
byte nr_early, nr_late, nr_idles, nr_leaves, nr_refusals, nr_challenges;
byte nr_jumps;
byte nr_given[WAITQS];
byte nr_sliced; /* leaders that sleep for a moment */

#define may_be_late (nr_late < LATE)

inline nested_edge(c)
{
	is_nested_pending[c] = is_nested_pending[c] || is_nested[c]
}

inline poller_wake(c)
{
	is_up[c] = true;
	nested_edge(c)
}

inline nudge(c)
{
	atomic {
		!slock ->
		/* [step: NUDGE] */
		is_listed[c] = true;
		is_urgent[c] = true;
		is_swoken = true
	}
}

inline list(c)
{
	atomic {
		!slock ->
		/* [step: LIST] */
		is_listed[c] = true;
		is_swoken = is_swoken || !is_ticking
	}
}

inline kick(c, bits_, is_armed_)
{
	todo[c] = todo[c] | (bits_);
	is_unarmed[c] = is_unarmed[c] || !(is_armed_);
	place[c] = KICKED
}

inline waitq_kick(l, c)
{
	waitq(l) ? <k>;
	kick(ctx_of(k), bit(l), false);
	must_nudge = must_nudge || ctx_of(k) != c;
	k = 0
}

inline deliver_nudge(c)
{
#if CTXS == 2
	if
#ifdef LEFT_OVER_TO_NOBODY
	:: must_nudge -> must_nudge = false
#else
	:: must_nudge -> must_nudge = false; nudge(1 - (c))
#endif
	:: else
	fi
#else
	skip
#endif
}

/*
 * Waiters
 */

/* The lock is held. */
inline tell(w, c)
{
	atomic {
		is_listening[w] = false;
		nr_waiters[c]--;
		/* [step: TELL_LEADER] */
		is_told[w] = leads[w]
	};
	atomic {
		if
#ifndef SLEEPER_NOT_WOKEN
		:: leads[w] && is_asleep[w] -> poller_wake(c)
#endif
		:: else
		fi;
		is_woken[w] = true
	}
}

#define listens(w, c) (ctx_of_waiter(w) == (c) && is_listening[w])

/* The lock is held. */
inline tell_next(c, has_told)
{
	has_told = false;
	if
#if WAITERS > 0
	:: listens(1, c) -> tell(1, c); has_told = true
#endif
#if WAITERS > 1
	:: listens(2, c) -> tell(2, c); has_told = true
#endif
	:: else
	fi
}

/* An event, to all who wait for it. */
inline post(c, r)
{
	atomic {
		!lock[c] -> lock[c] = true;
		assert(state[r] == TRIED);
		state[r] = DONE;
		unread[c]++
	};
#if WAITERS > 0
	if
	:: listens(1, c) -> tell(1, c)
	:: else
	fi;
#endif
#if WAITERS > 1
	if
	:: listens(2, c) -> tell(2, c)
	:: else
	fi;
#endif
	atomic { lock[c] = false; r = 0 }
}

inline pass_on(c)
{
	atomic { !lock[c] -> lock[c] = true };
	/* [step: PASS_ON] */
	if
	:: is_led[c] -> atomic { poller_wake(c); lock[c] = false }
	:: else ->
		if
		:: leader[c] == 0 -> tell_next(c, has_told)
		:: else
		fi;
		lock[c] = false;
		if
#ifdef TOLD_WAITER_RELIED_ON
		:: has_told
#else
		:: has_told && is_listed[c]
		:: has_told && !is_listed[c] -> list(c)
#endif
		:: !has_told -> nudge(c)
		fi;
		has_told = false
	fi
}

/*
 * Trying
 */

#define tells(c, l) (armed[c] & bit(l))
#define CALLER 0
#define LEADER 1
#define FALLBACK 2

inline begin_try(l)
{
	is_kicked[l] = false;
	waitq(l) ? <r>;
	assert(!is_trying[l] && state[r] == PARKED);
	is_trying[l] = true;
	state[r] = TRIED
}

inline next_try(l, c, goes_on)
{
	/* [step: WAITQ_NEXT] */
	if
	:: (goes_on) && budget > 0 && len(waitq(l)) > 0 -> begin_try(l)
	:: else ->
		is_running[l] = false;
		is_ours = false;
		if
		:: budget == 0 && len(waitq(l)) > 0 -> waitq_kick(l, c)
		:: else
		fi
	fi
}

inline doubt(c, bits_)
{
	todo[c] = todo[c] | (bits_);
	is_untried[c] = true;
	if
	:: place[c] != KICKED -> place[c] = REFUSED
	:: else
	fi
}

inline try_ready(c, by)
{
	d_step {
		budget = BUDGET;
		has_doubts = false;
		is_left = false;
		is_mine = false
	};
	do
	:: atomic {
		/* [step: DRAIN_BEGIN] */
		if
		:: !is_mine && is_draining[c] -> break
		:: else
		fi;
		is_draining[c] = true;
		is_mine = true;
		if
		:: budget > 0 && (place[c] == KICKED ||
				  (place[c] == FRESH && by != FALLBACK)) ->
			/* [step: POP] */
			bits = todo[c];
			is_fresh = place[c] == FRESH;
			todo[c] = 0;
			is_untried[c] = false;
			place[c] = (is_unarmed[c] -> UNARMED : IDLE)
		:: else ->
			/* [step: DRAIN_END] */
			is_left = place[c] == KICKED;
			is_mine_unarmed = place[c] == UNARMED;
#ifndef DRAINER_GOES_LATER
			is_draining[c] = false;
#endif
			is_mine = false;
#ifdef DRAINER_GOES_LATER
			is_mine_late = true;
#endif
			break
		fi
	   };
	   do
	   :: l < WAITQS ->
		atomic {
			/* [step: WAITQ_BEGIN] */
			if
			:: !(bits & bit(l))
			:: (bits & bit(l)) && budget == 0 ->
				if
				:: len(waitq(l)) > 0 -> waitq_kick(l, c)
				:: else
				fi
#ifdef TWO_RUN_A_WAITQ
			:: (bits & bit(l)) && budget > 0 ->
#else
			:: (bits & bit(l)) && budget > 0 && is_running[l] ->
#ifndef BUSY_WAITQ_NOT_KICKED
				is_kicked[l] = true
#else
				skip
#endif
			:: (bits & bit(l)) && budget > 0 && !is_running[l] ->
#endif
				if
				:: len(waitq(l)) > 0 ->
					is_running[l] = true;
					is_ours = true;
					begin_try(l)
				:: else
				fi
			fi
		};
		do
		:: is_ours ->
			/* [step: TRY] */
			d_step {
				got = tokens[l] > 0;
				tokens[l] = tokens[l] - got
			};
			/* [step: DOUBT] */
			if
			:: !got && !(is_fresh && !tells(ctx_of(r), l)) ->
				in_doubt = polls(l)
			:: else
			fi;
			atomic {
				/* [step: TRIED] */
				is_trying[l] = false;
				budget--;
				if
#if CLOSES
				:: !got && is_cancelled(r) ->
					waitq(l) ? eval(r);
					nr_parked[ctx_of(r)]--;
					state[r] = DONE;
					r = 0;
					next_try(l, c, true)
#endif
				:: !got && !is_cancelled(r) ->
					state[r] = PARKED;
					if
					:: in_doubt ->
						doubt(ctx_of(r), bit(l));
						has_doubts = has_doubts ||
							ctx_of(r) == c;
						must_nudge = must_nudge ||
							ctx_of(r) != c;
						in_doubt = false
					:: else
					fi;
					r = 0;
					next_try(l, c, is_kicked[l])
				:: got ->
					waitq(l) ? eval(r);
					nr_parked[ctx_of(r)]--
				fi
			};
			if
			:: got ->
				got = false;
				post(ctx_of(r), r);
				atomic { next_try(l, c, true) }
			:: else
			fi;
			deliver_nudge(c)
		:: else -> break
		od;
		deliver_nudge(c);
		l++
	   :: else -> break
	   od;
	   atomic { l = 0; bits = 0; is_fresh = false }
	od;
#ifdef DRAINER_GOES_LATER
	if
	:: is_mine_late -> is_mine_late = false; is_draining[c] = false
	:: else
	fi;
#endif
	budget = 0;
	if
	:: by == CALLER && (is_left || has_doubts) -> pass_on(c)
#ifndef UNARMED_LEFT_BY_A_CALLER
	:: by == CALLER && !is_left && !has_doubts && is_mine_unarmed ->
		/* [step: DRAINED_LOOK] */
		if
		:: is_led[c] || is_adopted[c] -> arm_beside(c)
		:: else
		fi
#endif
	:: else
	fi;
	has_doubts = false;
	is_mine_unarmed = false
}

/* What the epoll has said. */
inline kick_events(c)
{
	atomic {
		if
		:: events ->
			/* [step: EDGE] */
			nr_edges++;
			if
			:: (events & 1) && (is_running[0] || len(waitq(0)) == 0) ->
#ifndef EDGE_KICKS_NO_BUSY_WAITQ
				is_kicked[0] = is_kicked[0] || is_running[0];
#endif
				events = events - 1
			:: else
			fi;
#if WAITQS == 2
			if
			:: (events & 2) && (is_running[1] || len(waitq(1)) == 0) ->
				is_kicked[1] = is_kicked[1] || is_running[1];
				events = events - 2
			:: else
			fi;
#endif
			if
			:: wanted == 0 -> armed[c] = 0; is_pending[c] = false
			:: else
			fi;
			if
			:: events -> kick(c, events, true)
			:: else
			fi;
			events = 0
		:: else
		fi
	}
}

inline take(c)
{
	atomic {
		/* [step: TAKE] */
		events = (has_events(c) -> armed[c] & polls_bits : 0);
		is_pending[c] = false
	}
}

/*
 * Arming
 */

#define is_known(c) (place[c] == IDLE || place[c] == KICKED)

inline arm(c)
{
	is_all = true;
	do
	:: atomic {
		/* [step: ARM_NEXT] */
		if
		:: is_all && !is_known(c) && place[c] != REFUSED ->
			if
			:: is_untried[c] -> place[c] = KICKED
			:: else ->
				place[c] = IDLE;
				todo[c] = 0;
				is_unarmed[c] = false;
				is_mine = true
			fi;
		:: !is_all || is_known(c) || place[c] == REFUSED -> break
		fi
	   };
	   if
	   :: is_mine ->
		atomic {
			is_mine = false;
			/* [step: ARM] */
			if
			:: (armed[c] & wanted) == wanted
			:: (armed[c] & wanted) != wanted ->
				armed[c] = armed[c] | wanted;
				if
				:: armed[c] & polls_bits ->
					is_pending[c] = true;
					nested_edge(c)
				:: else
				fi
			:: (armed[c] & wanted) != wanted &&
			   nr_refusals < REFUSALS ->
				nr_refusals++;
				is_all = false
			fi
		};
		if
		:: !is_all ->
			atomic {
				/* [step: ARM_REFUSED] */
				is_unarmed[c] = true;
				if
				:: place[c] != KICKED -> place[c] = REFUSED
				:: else
				fi
			}
		:: else
		fi
	   :: else
	   fi
	od;
	/* [step: IS_ARMED] */
	is_all = is_known(c)
}

inline kick_refused(c)
{
	atomic {
		if
		:: !is_known(c) -> kick(c, ALL, false)
		:: else
		fi
	}
}

#define has_kicked(c) (place[c] == KICKED && !is_draining[c])

/* For a thread that sleeps in the epoll. */
inline arm_beside(c)
{
	arm(c);
	if
	:: !is_all -> nudge(c)
	:: else
	fi;
	is_all = false;
	if
	:: has_kicked(c) -> pass_on(c)
	:: else
	fi
}

#ifdef DRAINER_GOES_LATER
#define DRAIN_LOCAL , is_mine_late
#else
#define DRAIN_LOCAL
#endif
#define LOCALS \
	byte l, r, k, bits, budget, events; \
	bool is_fresh, got, in_doubt, is_left, has_doubts, is_mine, is_ours; \
	bool must_nudge, is_all, has_told, is_mine_unarmed DRAIN_LOCAL

/*
 * Threads that submit
 */

inline expect(c)
{
	/* [step: EXPECT] */
#ifndef LOOKS_BEFORE_IT_COUNTS
	nr_parked[c]++;
#endif
	if
	:: is_listed[c]
	:: else ->
		if
		:: is_adopted[c]
		:: else -> list(c)
		fi
	fi;
#ifdef LOOKS_BEFORE_IT_COUNTS
	nr_parked[c]++
#endif
}

/* e: the edges seen before the try, 0 if there was none. */
inline park(q, e)
{
	d_step { l = waitq_of(q); k = ctx_of(q) };
#if CLOSES
	/* [step: PARK_STATE] */
	atomic { state[q] = PARKED; is_parking = true };
#endif
	atomic {
		/* [step: PARK] */
#if CLOSES
		is_parking = false;
#ifndef PARKS_WITHOUT_A_LOOK
		if
		:: is_closing -> state[q] = DONE; nr_parked[k]--; goto parked
		:: else
		fi;
#endif
#endif
		is_fresh = len(waitq(l)) == 0 && !is_running[l]; /* was idle */
#ifdef EDGES_NOT_COMPARED
		got = e != 0;
#else
		got = e == nr_edges + 1; /* was tried */
#endif
		waitq(l) ! q;
		state[q] = PARKED;
		if
		:: !is_fresh && tells(k, l)
		:: !(!is_fresh && tells(k, l)) && tells(k, l) && !got ->
			if
			:: kick(k, bit(l), true)
			:: todo[k] = todo[k] | bit(l); is_unarmed[k] = true;
				is_untried[k] = true;
				if :: place[k] != KICKED -> place[k] = FRESH :: else fi
			fi
		:: !(!is_fresh && tells(k, l)) && tells(k, l) && got &&
		   !CERTAIN && polls(l) ->
			kick(k, bit(l), true)
		:: !(!is_fresh && tells(k, l)) && tells(k, l) && got &&
		   (CERTAIN || !polls(l)) ->
			if
			:: true
			:: todo[k] = todo[k] | bit(l); is_unarmed[k] = true;
				if :: place[k] != KICKED -> place[k] = FRESH :: else fi
			fi
		:: !tells(k, l) ->
			todo[k] = todo[k] | bit(l); is_unarmed[k] = true;
			if :: place[k] != KICKED -> place[k] = FRESH :: else fi
		fi;
		is_fresh = false; got = false
	}
}

inline submitted(c)
{
	if
	:: place[c] == KICKED -> try_ready(c, CALLER); is_left = false
	:: else
	fi;
	/* [step: SUBMITTED_LOOK] */
#ifndef NO_LOOK_FOR_A_LEADER
	is_watched = is_led[c];
#endif
	if
#ifndef NO_LOOK_FOR_AN_ADOPTER
	:: !is_watched -> is_watched = is_adopted[c]
#endif
	:: else
	fi;
	if
	:: is_watched -> arm_beside(c)
	:: else ->
		if
#ifndef WAITERS_NOT_TOLD
		:: nr_waiters[c] > 0 -> pass_on(c)
#endif
		:: else
		fi
	fi;
	is_watched = false
}

proctype submitter(byte q)
{
	byte e, nr;
	bool is_watched, has_parked;
	LOCALS;

	do
	:: q <= REQS ->
		/* [step: EDGES] */
		e = nr_edges + 1;
		atomic {
			if
			:: tokens[waitq_of(q)] > 0 && len(waitq(waitq_of(q))) == 0 ->
				tokens[waitq_of(q)]--;
				state[q] = DONE
			:: tokens[waitq_of(q)] == 0 && len(waitq(waitq_of(q))) == 0
			:: len(waitq(waitq_of(q))) > 0 -> e = 0
			:: UNTRIED -> e = 0
			fi
		};
		if
		:: state[q] == NEW ->
			expect(ctx_of(q));
			park(q, e);
parked:			atomic { l = 0; k = 0 };
			has_parked = true
		:: else
		fi;
		d_step {
			e = 0;
			q = q + SUBMITTERS;
			nr++
		};
		if
		:: has_parked && (nr == BATCH || q > REQS || CTXS == 2) ->
			submitted(ctx_of(q - SUBMITTERS));
			has_parked = false;
			nr = 0
		:: else
		fi
	:: else -> break
	od
}

#if CLOSES
proctype closer()
{
	byte q = 1;

	is_closing = true;
	do
	:: q <= REQS ->
		/* [step: CLOSING_LOOK] */
		if
		:: state[q] == PARKED || state[q] == TRIED ->
			atomic {
				!is_parking ->
				/* [step: CANCEL] */
				if
				:: state[q] == PARKED ->
					waitq(0) ?? eval(q);
					nr_parked[0]--;
					state[q] = DONE
#ifndef TRIED_IS_LEFT
				:: state[q] == TRIED -> is_marked[q] = true
#endif
				:: else
				fi;
			}
		:: else
		fi;
		q++
	:: else -> break
	od
}
#endif

proctype producer()
{
	byte l;

	do
	:: atomic {
		if
		:: nr_given[0] < REQS - (WAITQS - 1) -> l = 0
#if WAITQS == 2
		:: nr_given[1] < 1 - NEVER -> l = 1
#endif
		:: else -> break
		fi;
		nr_given[l]++;
		tokens[l]++;
		if
		:: !(DOUBT && l == 0) ->
			if
			:: armed[0] & bit(l) -> is_pending[0] = true; nested_edge(0)
			:: else
			fi;
#if CTXS == 2
			if
			:: armed[1] & bit(l) -> is_pending[1] = true; nested_edge(1)
			:: else
			fi
#endif
		:: tokens[l] > 1
		:: else
		fi;
		l = 0
	}
	od
}

/*
 * Threads that wait
 */

/* The lock is held, and is released. */
inline depose(c)
{
#ifdef LISTS_LOOKED_AT_BEFORE
	was_listed = is_listed[c];
	is_led[c] = false;
#else
	atomic { was_listed = is_listed[c]; is_led[c] = false };
#endif
	/* [step: DEPOSED_LOOK] */
	if
	:: nr_parked[c] > 0 && !(was_listed && nr_waiters[c] == 0) ->
#ifndef LEAVER_TELLS_NOBODY
		tell_next(c, has_told);
		has_told = false;
#endif
		lock[c] = false;
#ifndef LEAVER_LISTS_NOTHING
		list(c)
#endif
	:: else -> lock[c] = false
	fi
}

#define ctx ctx_of_waiter(me)
proctype waiter(byte me)
{
	byte by;
	bool is_over, has_seen, was_listed;
	LOCALS;

#if JUMPS
	nr_jumps == me - 1;
#endif
call:
	atomic {
		nr_calls[me]++;
		if
		:: unread[ctx] > 0 -> unread[ctx] = 0; goto out
		:: else
		fi
	};
	if
	:: nr_parked[ctx] > 0 -> by = CALLER; goto try
	:: else
	fi;
tried_by_caller:
#if LOOKS
	if
	:: nr_calls[me] <= LOOKS && !has_seen && !is_led[ctx] &&
	   unread[ctx] == 0 && nr_parked[ctx] > 0 ->
		has_seen = true;
		arm(ctx);
		if
		:: !is_all && is_led[ctx] -> pass_on(ctx)
		:: !is_all && !is_led[ctx] && !is_listed[ctx] -> list(ctx)
		:: else
		fi;
		is_all = false;
		take(ctx);
		goto try
	:: else
	fi;
	has_seen = false;
#endif
	atomic {
		if
		:: unread[ctx] > 0 -> unread[ctx] = 0; goto out
		:: unread[ctx] == 0 && nr_calls[me] <= LOOKS -> goto out
		:: else
		fi
	};
again:
	atomic {
		!lock[ctx] ->
		if
		:: unread[ctx] > 0 -> unread[ctx] = 0; goto out
		:: else
		fi;
		lock[ctx] = true;
		is_listening[me] = true;
		is_woken[me] = false;
		leads[me] = false;
		/* [step: ENTER] */
		nr_waiters[ctx]++
	};
	atomic {
		/* [step: LEAD_LOOK] */
		if
#ifndef WAITER_DOES_NOT_LOOK
		:: leader[ctx] == 0 && nr_parked[ctx] > 0 ->
			leader[ctx] = me;
			leads[me] = true;
			is_told[me] = false;
			is_asleep[me] = false
#endif
		:: else -> lock[ctx] = false; goto follow
		fi
	};
	atomic {
		is_led[ctx] = true;
		lock[ctx] = false
	};
lead:
	by = LEADER;
try:
	kick_events(ctx);
	try_ready(ctx, by);
	if
	:: by == CALLER -> is_left = false; goto tried_by_caller
	:: else
	fi;
	atomic {
		if
		:: is_woken[me] -> is_left = false; goto stop
		:: !is_woken[me] && is_left -> is_left = false; goto lead
		:: !is_woken[me] && nr_leaves < LEAVES ->
			nr_leaves++;
			is_left = false;
			is_over = true;
			goto stop
		:: !is_woken[me] && !is_left
		fi
	};
#ifdef SLEEPS_UNARMED
	is_all = true;
#else
	arm(ctx);
#endif
	if
	:: !is_all -> kick_refused(ctx)
	:: else ->
		atomic {
			/* [step: LEAD_LAST_LOOK] */
			if
#ifndef SLEEPS_ON_KICKED
			:: has_kicked(ctx) -> is_all = false; goto lead
#endif
			:: else
			fi
		}
	fi;
	/* [step: ASLEEP] */
	is_asleep[me] = true;
	if
#ifndef SLEEPS_THOUGH_TOLD
	:: is_told[me]
#endif
	:: else ->
		nr_sliced = nr_sliced + !is_all;
		atomic {
			if
			:: is_readable(ctx) ->
				events = (has_events(ctx) ->
					armed[ctx] & polls_bits : 0);
				is_pending[ctx] = is_pending[ctx] && !events;
				has_seen = is_up[ctx]
#if JUMPS
			:: nr_jumps < JUMPS ->
				if
				:: has_events(ctx) -> is_pending[ctx] = false
				:: else
				fi;
				nr_jumps++;
				nr_calls[me] = 0;
				goto gone
#endif
			:: nr_leaves < LEAVES -> nr_leaves++; is_over = true
			:: !is_all && timeout && may_be_late -> nr_late++
			fi;
			nr_sliced = nr_sliced - !is_all
		};
		is_up[ctx] = is_up[ctx] && !has_seen;
		has_seen = false
	fi;
	is_all = false;
	is_asleep[me] = false;
	atomic {
		!lock[ctx] ->
		/* [step: AWAKE] */
		if
		:: leader[ctx] == me -> is_led[ctx] = true
		:: else -> goto lost
		fi
	};
	if
	:: is_over -> goto stop
	:: else -> goto lead
	fi;
lost:
	if
	:: events ->
		events = 0;
		atomic { kick(ctx, ALL, true) };
		atomic { poller_wake(ctx) }
	:: else
	fi;
	goto stop;
follow:
	atomic {
		if
		:: is_woken[me]
		:: nr_leaves < LEAVES -> nr_leaves++; is_over = true
#if CHALLENGES || JUMPS
		:: !is_woken[me] && !lock[ctx] && is_led[ctx] &&
		   (nr_jumps > 0 || nr_challenges < CHALLENGES) ->
			nr_challenges = nr_challenges + (nr_jumps == 0);
			lock[ctx] = true;
			goto challenge
#endif
		fi
	};
stop:
	atomic {
		!lock[ctx] ->
		/* [step: LEAVE_WAIT] */
		nr_waiters[ctx] = nr_waiters[ctx] - is_listening[me];
		is_listening[me] = false;
		is_woken[me] = false;
		if
		:: leader[ctx] == me -> lock[ctx] = true; leader[ctx] = 0
		:: else -> goto left
		fi
	};
	depose(ctx);
left:
	atomic {
		leads[me] = false;
		if
		:: unread[ctx] > 0 -> unread[ctx] = 0; goto out
		:: unread[ctx] == 0 && is_over -> goto out
		:: else -> goto again
		fi
	};
#if CHALLENGES || JUMPS
challenge:
	is_led[ctx] = false;
#ifdef TWO_SLEEP_IN_AN_EPOLL
	leader[ctx] = 0;
#endif
	if
	:: nr_parked[ctx] > 0 ->
#ifndef EVENTS_LOST_WITH_THE_LEADER
		atomic { kick(ctx, ALL, true) };
#endif
#ifdef TWO_SLEEP_IN_AN_EPOLL
		tell_next(ctx, has_told);
		has_told = false;
#endif
		lock[ctx] = false;
		nudge(ctx)
	:: else -> lock[ctx] = false
	fi;
	goto follow;
#endif
out:
	atomic {
		is_over = false;
		if
		:: nr_calls[me] < (me == 1 -> CALLS : 1) -> goto call
		:: else
		fi
	}
#if JUMPS
	;
gone:	skip
#endif
}
#undef ctx

/*
 * A thread that attends (attend.h): one waiter, on no list, leads all contexts. It begins
 * with one after the other, sleeps until any is ready, or its own descriptor, and ends so.
 */

#if ATTENDERS
#define ME (WAITERS + 1)
#if CTXS == 2
#define has_any (unread[0] + unread[1] > 0)
#define is_ready_of_mine \
	(mine[0] && is_readable(0) || mine[1] && is_readable(1))
#else
#define has_any (unread[0] > 0)
#define is_ready_of_mine (mine[0] && is_readable(0))
#endif
proctype attender()
{
	byte c;
	bool mine[CTXS], is_told_of[CTXS], has_retried, was_listed, is_over;
	LOCALS;

begin:
	if
	:: c == CTXS -> c = 0; goto sleep
	:: c < CTXS && (nr_parked[c] == 0 || is_led[c]) -> goto begun
	:: else
	fi;
	atomic {
		!lock[c] ->
		if
		:: leader[c] == 0 && nr_parked[c] > 0 ->
			lock[c] = true;
			leader[c] = ME;
			mine[c] = true
		:: else -> goto begun
		fi
	};
	is_led[c] = true;
	/* Nothing is left to be prepared; or it is prepared. */
	atomic {
		lock[c] = false;
		if
#ifdef ATTENDS_UNPREPARED
		:: true -> goto begun
#else
		:: place[c] == IDLE -> goto begun
#endif
		:: else
		fi
	};
prepare:
	try_ready(c, LEADER);
	if
	:: is_left -> is_left = false; goto prepare
	:: else
	fi;
	arm(c);
	if
	:: !is_all && has_retried -> goto give_up
	:: !is_all && !has_retried ->
		has_retried = true;
		kick_refused(c);
		goto prepare
	:: is_all && has_kicked(c) -> is_all = false; goto prepare
	:: else -> goto begun
	fi;
give_up:
	mine[c] = false;
	atomic { !lock[c] -> lock[c] = true; leader[c] = 0 };
	depose(c);
begun:
	atomic { is_all = false; has_retried = false; was_listed = false; c++ };
	goto begin;
sleep:
	atomic {
		if
		:: is_ready_of_mine || has_any
		:: nr_leaves < LEAVES -> nr_leaves++; is_over = true
		fi;
		is_told_of[0] = mine[0] && is_readable(0);
#if CTXS == 2
		is_told_of[1] = mine[1] && is_readable(1)
#endif
	};
end:
	if
	:: c == CTXS -> goto ended
	:: c < CTXS && !mine[c] -> c++; goto end
	:: else
	fi;
	if
	:: is_told_of[c] ->
		/* [step: AWAKE] */
		atomic { !lock[c] -> is_led[c] = true };
		take(c);
		is_up[c] = false;
		kick_events(c);
		try_ready(c, LEADER);
		atomic { is_left = false; is_told_of[c] = false }
	:: else
	fi;
	atomic { !lock[c] -> lock[c] = true; leader[c] = 0 };
	depose(c);
	atomic { mine[c] = false; was_listed = false; c++ };
	goto end;
ended:
	atomic {
		c = 0;
		unread[0] = 0;
#if CTXS == 2
		unread[1] = 0;
#endif
		if
		:: is_over && STAYS_AWAY
		:: else -> is_over = false; goto begin
		fi
	}
}
#endif

/*
 * The fallback thread
 */

#define LEAVE 0
#define OTHERS 1
#define OURS 2
#if CTXS == 2
#define any(x) (x[0] || x[1])
#else
#define any(x) (x[0])
#endif

inline leave_listed(c)
{
	atomic {
		!slock ->
		is_listed[c] = false;
		urgent = is_urgent[c]
	};
	/* [step: UNLISTED_LOOK] */
	if
	:: urgent
#ifndef UNLISTED_WITHOUT_A_LOOK
	:: !urgent && nr_parked[c] > 0 ->
		if
		:: !is_led[c] && !is_adopted[c] -> urgent = true
#ifdef KICKED_LEFT_BY_THE_LIST
		:: !is_led[c] && is_adopted[c] -> urgent = !is_known(c)
#else
/* Of a look that is forgotten before (SERVE_*) this one would make up. */
#if defined(DOUBT_LEFT_BY_THE_LIST) || defined(SERVE_FORGETS_DOUBTS) || \
	defined(SERVE_FORGETS_TO_ARM)
		:: !is_led[c] && is_adopted[c] -> urgent = place[c] == KICKED
#else
		:: !is_led[c] && is_adopted[c] -> urgent = place[c] != IDLE
#endif
#endif
		:: else
		fi
#endif
	:: else
	fi;
	if
	:: urgent -> atomic { !slock -> is_listed[c] = true }
	:: else
	fi;
	urgent = false
}

/* What a look is for. */
#define FIRST 0
#define MORE 1
#define LAST 2
#define BESIDE 3 /* callers, which do the rest */

proctype fallback()
{
	byte c, care, stage;
	bool is_late, urgent, led, attended, is_good, is_answer;
	LOCALS;

look_at_all:
	if
	:: c == CTXS -> goto looked
	:: else
	fi;
	atomic {
		!slock ->
		urgent = is_urgent[c];
		is_urgent[c] = false;
		if
		:: is_listed[c]
		:: else -> c++; urgent = false; goto look_at_all
		fi;
		if
		:: !is_late -> attended = true
		:: true
		fi
	};
	led = is_led[c];
	if
	:: !urgent && led ->
		if
		:: !is_known(c) || has_kicked(c) -> pass_on(c)
		:: else
		fi;
		care = LEAVE;
		goto cared
	:: !urgent && !led && attended -> stage = BESIDE; goto serve
	:: urgent || (!led && !attended) ->
		if
		:: nr_parked[c] == 0 -> care = LEAVE; goto cared
		:: else
		fi
	fi;
	if
	:: led || attended || is_adopted[c]
	:: else ->
		atomic {
			!slock ->
			slock = true;
			is_nested[c] = true;
			is_nested_pending[c] = is_readable(c)
		};
		/* [step: ADOPT] */
		is_adopted[c] = true;
		slock = false
	fi;
	stage = FIRST;
serve:
	take(c);
	kick_events(c);
	try_ready(c, FALLBACK);
	if
	:: stage == BESIDE -> care = OTHERS; goto served
	:: stage == FIRST && is_left -> stage = MORE; goto serve
	:: (stage == FIRST && !is_left) || stage == MORE ->
		arm(c);
		if
		:: is_all -> stage = LAST; goto serve
		:: else -> kick_refused(c); is_good = false
		fi
	:: stage == LAST ->
		if
		:: is_left -> pass_on(c)
		:: else
		fi;
#ifdef SERVE_FORGETS_DOUBTS
		is_good = !is_left && (is_known(c) || place[c] == REFUSED)
#else
#ifdef SERVE_FORGETS_TO_ARM
		is_good = !is_left && (is_known(c) || place[c] == UNARMED)
#else
		is_good = !is_left && is_known(c)
#endif
#endif
	fi;
	care = (is_good -> (led || attended -> OTHERS : LEAVE) : OURS);
served:
	atomic { is_left = false; is_all = false; stage = 0 };
	if
	:: is_answer ->
		is_answer = false;
		if
		:: !is_good -> nudge(c)
		:: else
		fi;
		d_step { is_good = false; c = 0; care = 0 };
		goto new_look
	:: else -> is_good = false
	fi;
cared:
	if
	:: care == LEAVE -> leave_listed(c)
	:: else -> care = LEAVE
	fi;
	atomic {
		attended = false;
		led = false;
		urgent = false;
		c++;
		goto look_at_all
	};
looked:
	atomic {
		!slock ->
		c = 0;
		is_late = false;
		is_ticking = any(is_listed)
	};
new_look:
	atomic {
		!slock ->
		if
		:: any(is_urgent) -> goto look_at_all
		:: else
		fi;
		is_ticking = is_ticking || any(is_listed)
	};
	atomic {
		if
		:: is_swoken -> is_swoken = false; goto new_look
		:: is_nested_pending[0] && is_readable(0) ->
			is_nested_pending[0] = false
#if CTXS == 2
		:: is_nested_pending[1] && is_readable(1) ->
			is_nested_pending[1] = false;
			c = 1
#endif
		:: is_ticking && nr_early < EARLY ->
			nr_early++;
			goto look_at_all
		:: is_ticking && timeout && may_be_late ->
			nr_late++;
			is_late = true;
			goto look_at_all
		:: !is_ticking && nr_idles < IDLES ->
			nr_idles++;
			goto idle
		fi
	};
	/* An adopted one has something. */
	atomic {
		if
		:: is_led[c]
		:: !is_led[c] && nr_early < EARLY -> nr_early++
		:: !is_led[c] -> is_answer = true; stage = FIRST; goto serve
		fi
	};
	atomic {
		!slock ->
		slock = true;
		is_nested[c] = false;
		is_nested_pending[c] = false
	};
	/* [step: DISOWN] */
	is_adopted[c] = false;
	atomic {
		is_listed[c] = true;
		slock = false;
		c = 0;
		goto new_look
	};
idle:
	if
	:: is_adopted[0] && nr_parked[0] == 0 ->
		atomic {
			!slock ->
			slock = true;
			is_nested[0] = false;
			is_nested_pending[0] = false
		};
		is_adopted[0] = false;
		/* [step: DISOWNED_LOOK] */
		if
#ifndef DISOWNED_WITHOUT_A_LOOK
		:: nr_parked[0] > 0 -> is_listed[0] = true
#endif
		:: else
		fi;
		slock = false
	:: else
	fi;
	goto look_at_all
}

init {
	byte i;

	atomic {
		tokens[0] = GIVEN;
		nr_given[0] = GIVEN;
		armed[0] = WAS_ARMED;
		is_pending[0] = GIVEN > 0 && (WAS_ARMED & 1);
		is_nested[0] = WAS_ADOPTED;
		is_adopted[0] = WAS_ADOPTED;
		is_listed[0] = WAS_LISTED;
		is_ticking = WAS_LISTED;
#if SUBMITTERS > 0
		run submitter(FIRST_PARKED + 1);
#endif
#if SUBMITTERS > 1
		run submitter(FIRST_PARKED + 2);
#endif
#if WAITERS > 0
		run waiter(1);
#endif
#if WAITERS > 1
		run waiter(2);
#endif
#if ATTENDERS
		run attender();
#endif
#if CLOSES
		run closer();
#endif
		run producer();
#if WITH_FALLBACK
		run fallback();
#endif
		i = 1;
		do
		:: i <= FIRST_PARKED ->
			waitq(waitq_of(i)) ! i;
			state[i] = PARKED;
			nr_parked[ctx_of(i)]++;
			place[ctx_of(i)] = FRESH;
			is_unarmed[ctx_of(i)] = true;
			is_untried[ctx_of(i)] = WAS_UNTRIED;
			todo[ctx_of(i)] = todo[ctx_of(i)] | bit(waitq_of(i));
			is_listed[ctx_of(i)] = true;
			is_ticking = true;
			i++
		:: else -> break
		od;
		i = 1
	};
	/* Nothing moves any more, nor will by itself. */
	atomic {
		timeout && !(may_be_late &&
			     ((WITH_FALLBACK && is_ticking) || nr_sliced));
		i = 1 + NEVER;
		do
		:: i <= REQS -> assert(state[i] == DONE); i++
		:: else -> break
		od;
		i = 1;
		do
		:: i <= WAITERS -> assert(!is_woken[i] || is_gone(i)); i++
		:: else -> break
		od
	}
}
