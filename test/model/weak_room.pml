/* SPDX-License-Identifier: MIT */
/*
 * Tickets and the completion ring of a context: [MB:tickets], [MB:done],
 * [MB:ring-tail], [MB:ring-head]
 *
 * Threads submit, each a request that completes at once: uaio_ctx_take_tickets(),
 * uaio_ctx_room(), take_in(), uaio_ring_push(). Another thread reaps by
 * uaio_ring_pop(), or as a client that reads the map by itself. The ring has one
 * slot, so an event that is written before the last one is read is a race; head and
 * tail count on. A submitter that finds no room tries again when it may see more.
 * The context is made, in memory that was a context with more room before: publish().
 */
#define SUBMITTERS 2
#define LOCS 8
#define THREADS (SUBMITTERS + 1)
#define HIST 8
#define LOCKS 1
#define NO_SEQ
#include "weak.pml"

#define TICKETS 0
#define DONE 1     /* nr_done */
#define TAIL 2     /* with the number of hidden events, times HIDDEN */
#define MAP_TAIL 3
#define HEAD 4
#define SLOT 5
#define WAS_READ 6 /* marks */
#define CAPACITY 7
#define HIDDEN 16
#define DEAD 128
#define REAPER SUBMITTERS
#define EVENTS SUBMITTERS

#define OF_QUEUE 0
bool has_queue_lock;
byte nr_over;

#define may_see_more \
	(newest(TICKETS) != tickets || newest(DONE) != done || \
	 newest(HEAD) != head || newest(TAIL) % HIDDEN != tail)

proctype submitter(byte me)
{
	byte tickets, done, head, tail, capacity, r;

	/* uaio_ctx_take_tickets() */
	load(me, TICKETS, at(TAKE_LOAD, ACQ), tickets);
	do
	:: true ->
		/* uaio_ctx_room() */
		load(me, DONE, at(ROOM_DONE, ACQ), done);
		load(me, HEAD, at(ROOM_HEAD, ACQ), head);
		load(me, TAIL, at(ROOM_TAIL, ACQ), tail);
		tail = tail % HIDDEN;
		assert(tail >= head);
		load(me, CAPACITY, RLX, capacity);
		if
		:: tickets >= DEAD || (tickets + tail >= capacity + done + head && !broken(IGNORES_ROOM)) ->
			/* There is no context, or no room in it. */
			may_see_more;
			load(me, TICKETS, at(TAKE_AGAIN, ACQ), tickets)
		:: else ->
			cas(me, TICKETS, at(TAKE_CAS, ACQ), ACQ, tickets, tickets + 1, r);
			if
			:: r == tickets -> break
			:: else -> tickets = r
			fi
		fi
	od;
	atomic {
		assert(capacity == 1);
		tickets = 0; done = 0; head = 0; tail = 0; capacity = 0; r = 0
	};
	/* The request completes: take_in(), under the queue's lock. */
	atomic {
		!has_queue_lock ->
		has_queue_lock = true;
		take(me, OF_QUEUE);
		tail = newest(TAIL);
		assert(tail < HIDDEN);
		/* uaio_ring_push() */
		assert(has_seen_all(me, WAS_READ));
		put(me, SLOT, tail + 1);
		tail++;
		store(me, TAIL, at(PUSH_TAIL, REL), tail + HIDDEN)
	};
	store(me, MAP_TAIL, at(PUSH_MAP, REL), tail);
	store(me, TAIL, at(PUSH_SHOWN, REL), tail);
	atomic {
		done = newest(DONE) + 1;
		store(me, DONE, at(POST_DONE, REL), done);
		done = 0;
		give(me, OF_QUEUE);
		has_queue_lock = false
	}
	is_done(me);
	nr_over++
}

proctype reaper()
{
	byte head, tail, event;

	/* new_ctx(), publish() */
	store(REAPER, CAPACITY, RLX, 1);
	store(REAPER, TICKETS, at(PUBLISH, REL), 0);

	do
	:: head == EVENTS -> break
	:: head < EVENTS && newest(TAIL) % HIDDEN > head ->
		/* uaio_ring_pop() */
		load(REAPER, TAIL, at(POP_TAIL, ACQ), tail);
		if
		:: tail % HIDDEN - tail / HIDDEN > head ->
			atomic {
				get(REAPER, SLOT, event);
				assert(event == head + 1);
				mark(REAPER, WAS_READ);
				head++;
				store(REAPER, HEAD, at(POP_HEAD, REL), head);
				/* The client finds its event in the map, too. */
				load(REAPER, MAP_TAIL, RLX, tail);
				assert(tail >= head)
			}
		:: else
		fi;
		d_step { tail = 0; event = 0 }
	:: head < EVENTS && newest(MAP_TAIL) > head ->
		/* a client, which does as libaio's user_io_getevents() */
		load(REAPER, MAP_TAIL, ACQ, tail);
		if
		:: tail > head ->
			atomic {
				get(REAPER, SLOT, event);
				assert(event == head + 1);
				mark(REAPER, WAS_READ);
				head++;
				store(REAPER, HEAD, REL, head)
			}
		:: else
		fi;
		d_step { tail = 0; event = 0 }
	od;
	is_done(REAPER);
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
		value[msg(TICKETS, 0)] = DEAD;
		value[msg(CAPACITY, 0)] = 3;
		i = 0;
		run submitter(0);
		run submitter(1);
		run reaper()
	}
	timeout;
	assert(nr_over == THREADS)
}
