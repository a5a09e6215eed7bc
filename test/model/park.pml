/* SPDX-License-Identifier: MIT */
/*
 * Parking: how a thread that owns a request has it wait for its file
 *
 * The thread parks the request by uaio_req_park() or by route() (send.c). Meanwhile the
 * file gets ready, and the leader takes the request; a canceller finds it; and its queue
 * is closed and finished. ready.pml proves that a thread finds what is parked; this model
 * proves that the thread that parks gets along with those who end requests. The steps
 * have the names that the code has, [step: ...]; park.py has the configurations and the
 * faults.
 *
 * Proved, for every order of the steps:
 *
 *   - A request is completed once, also if it is cancelled, or if its queue is closed.
 *   - No thread uses a queue that is finished.
 *   - The count of parked requests is never below 0, and is 0 at the end.
 *
 * Not proved: memory order (weak_keep.pml); requests that are being tried; timers.
 */
#ifndef LOCKED
#define LOCKED 1 /* uaio_req_park(); 0: route(), with the pin of its caller */
#endif
#ifndef FEEDS
#define FEEDS 0 /* the file gets ready */
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef CLOSES
#define CLOSES 0
#endif

/* of the request */
#define OWNED 0 /* RUNNING or PREPPED */
#define PARKED 1
#define DONE 2
byte state;
bool is_unwanted;

/* of its queue */
bool group_lock, file_lock, is_closing, is_finished;
byte nr_parked, nr_pins, nr_requests = 1;

bool is_armed; /* the epoll tells of the file */

#define use assert(!is_finished)

inline lock(l)
{
	atomic { !l -> l = true }
}

/* Its owner completes it. From then on the queue may be finished. */
inline complete()
{
	atomic {
		use;
		assert(state == OWNED);
		state = DONE;
		nr_requests--
	}
}

inline uncount()
{
	use;
	assert(nr_parked > 0);
	nr_parked--
}

inline take()
{
	lock(file_lock);
	atomic {
		/* [step: CANCEL] */
		is_taken = state == PARKED;
		if
		:: is_taken -> state = OWNED; uncount()
		:: else
		fi;
		file_lock = false
	};
	if
	:: is_taken && holds_group -> group_lock = false
	:: else
	fi;
	if
	:: is_taken -> complete()
	:: else
	fi
}

inline look_for_closing()
{
	/* [step: PARK] */
	parks = !is_closing
}

inline look_for_canceller()
{
	/* [step: UNWANTED] */
	wants = !LOCKED || !is_unwanted
}

active proctype parker()
{
	bool parks, wants;

#ifndef EXPECTS_LATE
	/* [step: EXPECT] */
	nr_parked++;
#endif
#ifndef PINS_LATE
	/* [step: PIN] */
	nr_pins++;
#endif
#ifdef LOOKS_BEFORE_THE_LOCK
	look_for_canceller();
#endif
	if
	:: LOCKED -> lock(group_lock)
	:: else
	fi;
#ifndef LOOKS_BEFORE_THE_LOCK
	look_for_canceller();
#endif
#ifdef UNWANTED_NOT_LOOKED_AT
	wants = true;
#endif
#ifdef UNLOCKS_BEFORE_IT_PARKS
	group_lock = false;
#endif
	if
	:: wants ->
		lock(file_lock);
#ifdef LOOKS_BEFORE_IT_IS_PARKED
		look_for_closing();
#endif
		/* [step: PARK_STATE] */
		state = PARKED;
#ifndef LOOKS_BEFORE_IT_IS_PARKED
		look_for_closing();
#endif
#ifdef CLOSING_NOT_LOOKED_AT
		parks = true;
#endif
		if
		:: !parks -> state = OWNED
		:: else
		fi;
		file_lock = false
	:: else
	fi;
#ifdef EXPECTS_LATE
	nr_parked++;
#endif
#ifndef REFUSED_STAYS_COUNTED
	if
	:: !parks -> uncount()
	:: else
	fi;
#endif
#ifndef UNLOCKS_BEFORE_IT_PARKS
	if
	:: LOCKED -> use; group_lock = false
	:: else
	fi;
#endif
#ifdef PINS_LATE
	use;
	nr_pins++;
#endif
#ifdef UNPINS_BEFORE_IT_ANNOUNCES
	nr_pins--;
#endif
#ifndef ANNOUNCES_NOTHING
	if
	:: parks ->
		/* [step: SUBMITTED_LOOK] */
		use;
		is_armed = true
	:: else
	fi;
#endif
#ifndef UNPINS_BEFORE_IT_ANNOUNCES
	/* [step: UNPIN] */
	use;
	nr_pins--;
#endif
	if
	:: !parks -> complete()
	:: else
	fi
}

#if FEEDS
active proctype leader()
{
	bool is_taken, holds_group = false;

	/* The epoll may know the file for another request. */
	if
	:: is_armed = true
	:: true
	fi;
	do
	:: is_armed && state == PARKED -> take()
	:: state == DONE -> break
	od
}
#endif

#if CANCELS
active proctype canceller()
{
	bool is_taken, holds_group = true;

	/* Its caller keeps the queue. */
	atomic { state != DONE -> nr_pins++ };
	lock(group_lock);
	if
	:: state == PARKED -> take()
	:: else
	fi;
	if
	:: !is_taken ->
		is_unwanted = true;
		group_lock = false
	:: else
	fi;
	nr_pins--
}
#endif

#if CLOSES
active proctype closer()
{
	bool is_taken, holds_group = true;

	is_closing = true;
	lock(group_lock);
	/* [step: CLOSING_LOOK] */
	if
	:: state == PARKED -> take()
	:: else
	fi;
	if
	:: !is_taken -> group_lock = false
	:: else
	fi;
	nr_requests == 0;
#ifndef FINISHES_WITHOUT_THE_PINS
	/* [step: AWAIT_PINS] */
	nr_pins == 0;
#endif
	is_finished = true
}
#endif

/* Nothing moves any more. Without readiness a request may wait that nobody cancels. */
active proctype judge()
{
	timeout;
	assert(state == DONE || !(FEEDS || CANCELS || CLOSES));
	assert(nr_parked == 0 && nr_pins == 0)
}
