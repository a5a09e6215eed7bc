/* SPDX-License-Identifier: MIT */
/*
 * Telling waiters: [MB:lead], [MB:woken]
 *
 * One thread tells two waiters under the queue's lock: uaio_waiter_tell_locked().
 * One of them leads, and sleeps in the epoll: uaio_lead(), sleep_leading(). The other
 * sleeps on its word: wait_asleep(). A waiter that leaves, told or not, takes the lock,
 * and then its memory is used for something else.
 */
#define LOCS 6
#define THREADS 3
#define HIST 6
#define LOCKS 1
#include "weak.pml"

#define IS_TOLD 0
#define IS_ASLEEP 1
#define LEADER_WOKEN 2   /* is_woken of either */
#define FOLLOWER_WOKEN 3
#define LEADER_NODE 4    /* memory of either */
#define FOLLOWER_NODE 5

#define LEADER 0
#define FOLLOWER 1
#define TELLER 2

#define OF_QUEUE 0
bool has_lock;
bool leader_is_linked = true, follower_is_linked = true;
bool is_up; /* the eventfd in the epoll */
byte nr_over;

/* leave(), and the memory is another's */
inline leave(t, is_linked, node)
{
	atomic {
		!has_lock ->
		take(t, OF_QUEUE);
		is_linked = false;
		give(t, OF_QUEUE)
	};
	put(t, node, 0)
}

proctype leader()
{
	byte r;

	do
	:: load(LEADER, LEADER_WOKEN, at(LEAD_WOKEN, ACQ), r);
		if
		:: r == 1 -> break
		:: true -> break /* its time is over */
		:: r == 0
		fi;
		/* sleep_leading() */
		store(LEADER, IS_ASLEEP, at(ASLEEP, SEQ_STORE), 1);
		load(LEADER, IS_TOLD, at(ASLEEP_LOOK, SEQ_LOAD), r);
		if
		:: r == 0 || broken(SLEEPS_THOUGH_TOLD) -> atomic { is_up -> is_up = false }
		:: else ->
			/* It looks again until it sees the word. */
			do
			:: load(LEADER, LEADER_WOKEN, at(LEAD_WOKEN, ACQ), r);
				if
				:: r == 1 -> break
				:: r == 0 -> newest(LEADER_WOKEN) == 1
				fi
			od
		fi;
		store(LEADER, IS_ASLEEP, RLX, 0)
	od;
	leave(LEADER, leader_is_linked, LEADER_NODE);
	is_done(LEADER);
	nr_over++
}

proctype follower()
{
	byte r;

	/* wait_asleep() */
	do
	:: load(FOLLOWER, FOLLOWER_WOKEN, at(WAIT_WOKEN, ACQ), r);
		if
		:: r == 1 -> break
		:: true -> break /* its time is over */
		:: r == 0
		fi;
		futex_wait(FOLLOWER, FOLLOWER_WOKEN, 0)
	od;
	leave(FOLLOWER, follower_is_linked, FOLLOWER_NODE);
	is_done(FOLLOWER);
	nr_over++
}

proctype teller()
{
	byte r;
	bool must_wake;

	atomic {
		!has_lock ->
		has_lock = true;
		take(TELLER, OF_QUEUE)
	};
	if
	:: leader_is_linked ->
		put(TELLER, LEADER_NODE, 1);
		store(TELLER, IS_TOLD, at(TELL, SEQ_STORE), 1);
		load(TELLER, IS_ASLEEP, at(TELL_LOOK, SEQ_LOAD), r);
		if
		:: r == 1 && !broken(TELLS_ONLY) -> is_up = true
		:: else
		fi;
		put(TELLER, LEADER_NODE, 2);
		store(TELLER, LEADER_WOKEN, at(WOKEN_LEADER, REL), 1)
	:: else
	fi;
	if
	:: follower_is_linked ->
		must_wake = true;
		put(TELLER, FOLLOWER_NODE, 1);
		store(TELLER, FOLLOWER_WOKEN, at(WOKEN, REL), 1)
	:: else
	fi;
	atomic {
		give(TELLER, OF_QUEUE);
		has_lock = false
	};
	/* uaio_wakeups_deliver() */
	if
	:: must_wake -> futex_wake_one(TELLER, FOLLOWER_WOKEN)
	:: else
	fi;
	is_done(TELLER);
	nr_over++
}

init
{
	byte i;

	atomic {
		take_fault();
		for (i : 0 .. LOCS - 1) {
			first_value(i, 0)
		}
		i = 0;
		run leader();
		run follower();
		run teller()
	}
	timeout;
	assert(nr_over == THREADS)
}
