/* SPDX-License-Identifier: MIT */
/*
 * The private list of src/wq/worklist.h: [MB:worklist]
 *
 * One thread puts items in, two take them out. That the putter holds a lock, as
 * the canceller does, is left out: there is one putter. A list has two slots, or
 * one, so that a slot has several turns.
 */
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef ITEMS
#define ITEMS 3
#endif
#define LOCS (2 + SLOTS + ITEMS)
#define THREADS 3
#define HIST 7
#define NO_SEQ
#include "weak.pml"

#define HEAD 0
#define TAIL 1
#define slot_of(i) (2 + (i) % SLOTS)
#define item(w) (1 + SLOTS + (w)) /* what is in item w, from 1 on */
#define PUTTER 2

byte nr_taken, nr_over;

proctype putter()
{
	byte w, head, tail;

	for (w : 1 .. ITEMS) {
		/* uaio_worklist_has_room(); else the item goes elsewhere */
		do
		:: load(PUTTER, HEAD, at(HAS_ROOM, ACQ), head);
			if
			:: tail - head < SLOTS || broken(PUTS_WITHOUT_ROOM) -> break
			:: else -> !has_seen_all(PUTTER, HEAD)
			fi
		od;
		/* uaio_worklist_put() */
		atomic {
			put(PUTTER, item(w), w);
			if
			:: broken(TAIL_FIRST) -> store(PUTTER, TAIL, REL, tail + 1)
			:: else -> store(PUTTER, slot_of(tail), at(PUT_SLOT, REL), w)
			fi
		};
		if
		:: broken(TAIL_FIRST) -> store(PUTTER, slot_of(tail), REL, w)
		:: else
		fi;
		tail++;
		store(PUTTER, TAIL, at(PUT_TAIL, REL), tail)
	}
	is_done(PUTTER);
	nr_over++
}

proctype taker(byte me)
{
	byte head, tail, w, seen_head;

end_taker:
	do
	:: atomic { newest(HEAD) != newest(TAIL) -> skip };
		/* uaio_worklist_take() */
		load(me, HEAD, at(TAKE_HEAD, ACQ), head);
		load(me, TAIL, at(TAKE_TAIL, ACQ), tail);
		if
		:: head == tail -> goto end_taker
		:: else
		fi;
		if
		:: broken(TAKES_IN_TWO_STEPS) ->
			load(me, slot_of(head), ACQ, w);
			store(me, slot_of(head), REL, 0)
		:: else -> rmw(me, slot_of(head), at(TAKE_SLOT, ACQ_REL), w, 0)
		fi;
		if
		:: broken(PASSES_ALWAYS) -> store(me, HEAD, REL, head + 1)
		:: else -> cas(me, HEAD, at(TAKE_PASS, REL), RLX, head, head + 1, seen_head)
		fi;
		if
		:: w != 0 ->
			atomic {
				get(me, item(w), tail);
				assert(tail == w);
				put(me, item(w), 0);
				nr_taken++
			}
		:: else
		fi;
		d_step { head = 0; tail = 0; w = 0; seen_head = 0 }
	od
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
		run putter();
		run taker(0);
		run taker(1)
	}
	timeout;
	assert(nr_over == 1);
	assert(nr_taken == ITEMS)
}
