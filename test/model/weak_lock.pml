/* SPDX-License-Identifier: MIT */
/*
 * The lock of src/base/lock.h: [MB:lock]
 *
 * Three threads, each of which takes the lock once.
 */
#define LOCS 2
#define THREADS 3
#define HIST 8
#define NO_SEQ
#include "weak.pml"

#define WORD 0
#define DATA 1

byte nr_over;
#define waited (2 - broken(SLEEPS_AS_IF_ALONE))

proctype thread(byte me)
{
	byte r, data;

	cas(me, WORD, at(LOCK, ACQ), RLX, 0, 1, r);
	if
	:: r != 0 ->
		/* spin(), which may see the word free, and may be too late */
		load(me, WORD, RLX, r);
		if
		:: r == 0 -> cas(me, WORD, at(SPIN, ACQ), RLX, 0, 1, r)
		:: else
		fi;
		if
		:: r == 0
		:: else ->
			do
			:: rmw(me, WORD, at(LOCK_CONTENDED, ACQ), r, waited);
				if
				:: r == 0 -> break
				:: else -> futex_wait(me, WORD, 2)
				fi
			od
		fi
	:: else
	fi;
	get(me, DATA, data);
	put(me, DATA, data + 1);
	rmw(me, WORD, at(UNLOCK, REL), r, 0);
	if
	:: r == 2 && !broken(WAKES_NOBODY) -> futex_wake_one(me, WORD)
	:: else
	fi;
	is_done(me);
	nr_over++
}

init
{
	atomic {
		take_fault();
		first_value(WORD, 0);
		first_value(DATA, 0);
		run thread(0);
		run thread(1);
		run thread(2);
	}
	timeout;
	assert(nr_over == 3);
	assert(newest(DATA) == 3)
}
