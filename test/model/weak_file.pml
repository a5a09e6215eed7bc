/* SPDX-License-Identifier: MIT */
/*
 * References to an open file against closing: [MB:file], [MB:file-ref]
 *
 * uaio_file_get() and uaio_file_put() by one thread, or by two; publish() and
 * uaio_file_closing() by another. The closer has no time limit here, so a wake-up
 * that is lost is found.
 */
#ifndef GETTERS
#define GETTERS 1
#endif
#define LOCS 7
#define THREADS (GETTERS + 1)
#define HIST 6
#include "weak.pml"

#define SLOT 0    /* 1: the entry */
#define REFS 1
#define CLOSING 2 /* is_closing */
#define NUMBER 3  /* the descriptor's number: 1 while it is the file's */
#define DONE0 4   /* marks of the threads' last use of entry and number */
#define DONE1 5
#define KIND 6    /* a member that does not change */
#define CLOSER GETTERS

bool is_freed;
byte nr_over;

/* uaio_file_put() */
inline drop(t)
{
	rmw(t, REFS, at(PUT, SEQ_RMW), r, r - 1);
	assert(r > 0);
	if
	:: r == 1 ->
		/* free_file(): all that others did with the entry is over. */
		d_step {
			assert(!is_freed);
			assert(has_seen_all(t, DONE0));
			assert(has_seen_all(t, DONE1));
			is_freed = true
		}
	:: r == 2 ->
		load(t, CLOSING, at(PUT_LOOK, SEQ_LOAD), r);
		if
		:: r == 1 && !broken(PUT_WAKES_NOBODY) -> futex_wake_all(t, REFS)
		:: else
		fi
	:: else
	fi
}

proctype getter(byte me)
{
	byte r, number;

	/* uaio_file_find() */
	load(me, SLOT, at(FIND, ACQ), r);
	if
	:: r == 0 -> goto out
	:: else
	fi;
	get(me, KIND, number);
	/* uaio_file_try_get() */
	load(me, REFS, RLX, number);
	do
	:: number == 0 -> goto out
	:: else ->
		cas(me, REFS, at(TRY_GET, SEQ_RMW), RLX, number, number + 1, r);
		if
		:: r == number -> break
		:: else -> number = r
		fi
	od;
	number = 0;
	/* is_in_slot() */
	load(me, SLOT, at(IS_IN_SLOT, SEQ_LOAD), r);
	if
	:: r == 0 && !broken(LOOKS_ONCE) -> skip
	:: else ->
		/* The request uses the number and the entry. */
		assert(!is_freed);
		get(me, NUMBER, number);
		assert(number == 1);
		number = 0;
		mark(me, DONE0 + me)
	fi;
	drop(me);
out:
	is_done(me);
	nr_over++
}

proctype closer()
{
	byte r;

	/* publish() */
	store(CLOSER, REFS, RLX, 1);
	put(CLOSER, KIND, 1);
	store(CLOSER, SLOT, at(PUBLISH, REL), 1);
	/* take_out_locked() */
	store(CLOSER, SLOT, at(TAKE_OUT, SEQ_STORE), 0);
	/* let_go() */
	load(CLOSER, REFS, at(LET_GO, SEQ_LOAD), r);
	if
	:: r > 1 ->
		/* uaio_closing_see_through() */
		store(CLOSER, CLOSING, at(SAY_CLOSING, SEQ_STORE), 1);
		do
		:: load(CLOSER, REFS, at(SEE_THROUGH, SEQ_LOAD), r);
			if
			:: r > 1 && !broken(CLOSER_WAITS_NOT) ->
				futex_wait(CLOSER, REFS, r)
			:: else -> break
			fi
		od
	:: else
	fi;
	/* The program goes on: the number is soon another file's. */
	atomic {
		assert(has_seen_all(CLOSER, DONE0));
		assert(has_seen_all(CLOSER, DONE1))
	};
	put(CLOSER, NUMBER, 0);
	drop(CLOSER);
	is_done(CLOSER);
	nr_over++
}

init
{
	atomic {
		take_fault();
		first_value(SLOT, 0);
		first_value(REFS, 0);
		first_value(CLOSING, 0);
		first_value(NUMBER, 1);
		first_value(DONE0, 0);
		first_value(DONE1, 0);
		first_value(KIND, 0);
		run getter(0);
#if GETTERS > 1
		run getter(1);
#endif
		run closer()
	}
	timeout;
	assert(nr_over == THREADS);
	assert(is_freed)
}
