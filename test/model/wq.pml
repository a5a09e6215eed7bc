/* SPDX-License-Identifier: MIT */
/*
 * The work queue's protocols: handing work items on, sleeping and waking, the
 * manager
 *
 * One account. Its steps have the names that the code has, [step: ...]; wq.py
 * has the configurations that are searched in full, and the faults (the names
 * that only #ifdef knows here) of which each must be found.
 *
 * Proved, of each configuration, for every order of the steps:
 *
 *   - A work item is taken by one party only, and is never lost (I1; assertions
 *     of own() and finish(), and of the judge): when nothing moves any more,
 *     all are completed, or in a call that never returns.
 *   - I2 of wq.h whenever the lock is released, with what really is in the
 *     lists, and that the counts are true. A credit and its wake-up meet.
 *   - A worker completes what it has run before it sleeps or blocks.
 *   - A thread that relies on the manager is looked after, whichever creations of
 *     threads fail; work items queued while the manager makes one need not wait for it.
 *   - With the limit set to 0 and raised again at any time, the same.
 *
 * Not proved:
 *
 *   - Memory order: all accesses are in one order here (doc/memory-model.md). So an
 *     event count needs no count of waiters, and the manager's is a condition.
 *   - That anything ends: where all threads are refused for ever the manager
 *     tries for ever. Nor any time: what takes patience happens, or not; so
 *     when calls have taken long enough for one more, and which worker has
 *     been idle for long enough to leave, are left to chance.
 *   - Other changes of the limits, of fixed workers above all, who are there
 *     from the beginning; leaving the process (is_last, uaio_wq_revive()).
 *   - Where the code leaves work unattended: uaio_wq_take(), and a manager that
 *     is refused while workers are left (is_excused): somebody tries again when
 *     next another worker is wanted, and the model demands no more.
 *   - Patient work items: the limit counts all workers.
 *   - Two accounts: of the other it has only that it calls the same manager.
 *   - Several workers created at once; the order of work items; spinning.
 *
 * Whether a list is open and how many work items are in it are read in one
 * step: its owner may empty it in between, which makes the need too great,
 * never too small.
 */
#ifndef FIXED
#define FIXED 0 /* workers, with a private list each */
#endif
#ifndef NORMAL
#define NORMAL 1 /* at most so many others */
#endif
#define LIMIT (FIXED + NORMAL)
#ifndef ITEMS
#define ITEMS 3
#endif
#ifndef BATCH
#define BATCH 1 /* work items of one submission */
#endif
#ifndef SUBMITTERS
#define SUBMITTERS 1
#endif
#ifndef SLOTS
#define SLOTS 2 /* of a private list */
#endif
#ifndef FOREVER
#define FOREVER 0 /* calls that never return */
#endif
/* Booleans: configure these with -DNAME=1. */
#ifndef LONG_HELP
#define LONG_HELP 0 /* what the manager makes itself may never return */
#endif
#ifndef REFUSES
#define REFUSES 0 /* threads may be refused */
#endif
#ifndef TIMES_OUT
#define TIMES_OUT 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef LIMITS
#define LIMITS 0 /* 1: the limit becomes 0, then another; 2: it is raised */
#endif
#ifndef OTHER
#define OTHER 0 /* the other account calls the manager */
#endif
#ifndef STALE
#define STALE 0 /* lists are taken from owners that are slow */
#endif
#ifndef RING
#define RING 0 /* of all this the ring only, with more takers than there are */
#endif

/* Without a ring what is done under the lock is seen at once or not at all. */
#if FIXED == 0
#define section atomic
#else
#define section
#endif

/*
 * State
 */

/* of a work item */
#define NEW 0
#define QUEUED 1
#define OWNED 2
#define DONE 3
#define STUCK 4
#define RAN 5 /* and above: by which worker, not yet completed */
byte stage[ITEMS + 1];
bool may_block[ITEMS + 1];

#define NOWHERE 254
#define PUBLIC 255
byte where[ITEMS + 1]; /* or a slot */

/* of a worker; busy: in a call that may block */
#define ABSENT 0
#define SEARCHING 1
#define BUSY 2
#define IDLE 3
byte state[LIMIT];
bool is_created[LIMIT]; /* and does not run yet */

/* of the account */
bool lock;
chan public = [ITEMS] of { byte };
byte nr_blocking;
byte nr_idle, nr_searching, nr_credits, nr_workers;
byte max_workers;
bool is_manager_told, is_helped;

/* of the event count: the sequence is not the one read; in the futex */
bool is_old[LIMIT], is_waiting[LIMIT];

/* of the private lists; 0: empty */
byte slot[LIMIT * SLOTS];
byte head[LIMIT], tail[LIMIT];

/* of the manager; its lock is held for one step each time */
bool is_there, is_called;
bool is_begun; /* its thread, which does not run yet */

/* ghosts */
byte nr_forever;
bool is_excused; /* the manager was refused, with workers left */
bool is_other_relying;

/*
 * Rules
 */

#define is_open(f) (state[f] == BUSY || state[f] == IDLE)
#define nr_in_ring(f) (tail[f] - head[f])
#define nr_really_in_ring(f) ((slot[(f) * SLOTS] != 0) + (slot[(f) * SLOTS + 1] != 0))
#define nr_of_open(f) (is_open(f) -> nr_in_ring(f) : 0)
#define nr_really_of_open(f) (is_open(f) -> nr_really_in_ring(f) : 0)
#if FIXED == 0
#define sum_rings(x) 0
#elif FIXED == 1
#define sum_rings(x) (x(0))
#else
#define sum_rings(x) (x(0) + x(1))
#endif

#if LIMIT == 1
#define count(x) (x(0))
#elif LIMIT == 2
#define count(x) (x(0) + x(1))
#else
#define count(x) (x(0) + x(1) + x(2))
#endif
#define is_idle_one(i) (state[i] == IDLE)
#define is_awake_one(i) (state[i] == SEARCHING && !is_created[i])

#define nr_public_need \
	(nr_blocking + (len(public) > nr_blocking -> 1 : 0))
#define does_lack \
	(nr_public_need + sum_rings(nr_of_open) > nr_searching && \
	 nr_workers < max_workers)

#define I2 \
	(nr_public_need + sum_rings(nr_really_of_open) <= nr_searching || \
	 (nr_idle == 0 && \
	  (is_manager_told || (nr_workers >= max_workers && nr_workers > 0) || \
	   (is_excused && nr_workers > 0))))

inline unlock()
{
	d_step {
		assert(I2);
		assert(nr_idle + nr_credits == count(is_idle_one));
		lock = false
	}
}

/*
 * Work items
 */

inline own(w)
{
	assert(stage[w] == QUEUED);
	stage[w] = OWNED
}

inline finish(w)
{
	d_step {
		assert(stage[w] == OWNED);
		stage[w] = DONE;
		may_block[w] = false;
		where[w] = NOWHERE;
		w = 0
	}
}

inline pop_public(w)
{
	/* [step: POP_PUBLIC] */
	public ? w;
	nr_blocking = nr_blocking - may_block[w];
	where[w] = NOWHERE;
	own(w)
}

inline put_public(w)
{
	d_step {
		where[w] = PUBLIC;
		stage[w] = QUEUED;
		nr_blocking = nr_blocking + may_block[w];
		public ! w
	}
}

inline put_ring(f, w)
{
	/* [step: ADD_PUT] */
	d_step {
		where[w] = f * SLOTS + tail[f] % SLOTS;
		assert(slot[where[w]] == 0);
		stage[w] = QUEUED;
#ifdef TAIL_BEFORE_SLOT
		tail[f] = tail[f] + 1
	};
	slot[where[w]] = w
#else
		slot[where[w]] = w
	};
	tail[f] = tail[f] + 1
#endif
}

#define has_room(f) (nr_in_ring(f) < SLOTS)

/* h is the taker's; both are 0 before, and h is 0 afterwards. */
inline ring_take(f, w)
{
	do
	:: head[f] == tail[f] -> break
	:: atomic { head[f] != tail[f] -> h = head[f] };
#ifdef HEAD_BEFORE_EXCHANGE
		d_step { if :: head[f] == h -> head[f] = h + 1 :: else fi };
#endif
		/* [step: TAKE_EXCHANGE] */
#ifdef TAKE_WITHOUT_EXCHANGE
		w = slot[f * SLOTS + h % SLOTS];
		atomic {
			slot[f * SLOTS + h % SLOTS] = 0;
#else
		atomic {
			w = slot[f * SLOTS + h % SLOTS];
			slot[f * SLOTS + h % SLOTS] = 0;
#endif
			if
			:: w != 0 -> own(w)
			:: else
			fi
		};
		/* [step: TAKE_PASS] */
		atomic {
			if
			:: head[f] == h -> head[f] = h + 1
			:: else
			fi;
			h = 0;
			if
			:: w != 0 -> break
			:: else
			fi
		}
	od
}

/*
 * Waking
 */

/* Under the lock. k and calls are what is owed afterwards. */
inline grant(nr)
{
	/* [step: ENSURE_GRANT] */
	nr_idle = nr_idle - (nr);
	nr_searching = nr_searching + (nr);
#ifndef WAKE_WITHOUT_CREDIT
	nr_credits = nr_credits + (nr);
#endif
	k = k + (nr)
}

inline ensure()
{
	need = nr_public_need - nr_searching;
#if FIXED > 0
	need = need + nr_of_open(0);
#endif
#if FIXED > 1
	need = need + nr_of_open(1);
#endif
	d_step {
		if
		:: need < 0 -> need = 0
		:: else
		fi;
		i = (need < nr_idle -> need : nr_idle);
		grant(i);
		need = need - i;
		i = 0;
		/* [step: ENSURE_MANAGER] */
#ifndef MANAGER_NEVER_ARMED
		if
		:: !is_manager_told && need > 0 && nr_workers < max_workers ->
			is_manager_told = true;
			is_excused = false;
			calls = true
		:: else
		fi;
#endif
		need = 0
	}
}

/* Without the lock. */
inline notify()
{
	/* [step: WAKE] */
	if
	:: k > 0 ->
		d_step {
			for (i : 0 .. LIMIT - 1) {
				is_old[i] = is_old[i] ||
					(state[i] == IDLE && !is_waiting[i])
			}
			i = 0
		};
		atomic {
			do
			:: k > 0 ->
				if
				:: is_waiting[0] -> is_waiting[0] = false
#if LIMIT > 1
				:: is_waiting[1] -> is_waiting[1] = false
#endif
#if LIMIT > 2
				:: is_waiting[2] -> is_waiting[2] = false
#endif
				:: else
				fi;
				k--
			:: else -> break
			od
		}
	:: else
	fi
}

/* Sets calls to whether it was refused. */
inline call_manager()
{
	/* [step: MANAGER_CALL] */
#ifdef PROMISED_BEFORE_IT_EXISTS
	atomic {
		calls = !is_there;
		is_there = true;
		is_called = true
	};
	if
	:: calls -> atomic {
		if
		:: is_begun = true; calls = false
		:: REFUSES -> is_there = false; is_called = false
		fi }
	:: else
	fi
#else
	atomic {
		if
		:: is_there -> is_called = true; calls = false
		:: !is_there -> is_there = true; is_called = true;
			is_begun = true; calls = false
		:: !is_there && REFUSES -> calls = true
		fi
	}
#endif
}

inline deliver_from_worker()
{
	notify();
	if
	:: calls ->
		call_manager();
		if
		:: calls ->
			atomic {
				!lock -> lock = true;
				/* [step: MANAGER_UNDONE] */
#ifdef OTHERS_PROMISE
				is_manager_told = false;
#else
				is_manager_told = is_manager_told &&
					(nr_workers == 0 || is_there);
#endif
				is_excused = nr_workers > 0 && !is_manager_told;
				calls = false;
				unlock()
			}
		:: else
		fi
	:: else
	fi
}

/*
 * Workers
 */

/* What has been run is completed. */
inline flush()
{
	d_step {
		for (i : 1 .. ITEMS) {
			if
			:: stage[i] == RAN + me -> stage[i] = DONE
			:: else
			fi
		}
		i = 0;
		has_done = false
	}
}

inline run_short()
{
	d_step {
		assert(stage[w] == OWNED);
		stage[w] = RAN + me;
		where[w] = NOWHERE;
		has_done = true;
		w = 0
	}
}

/*
 * The public list's short work items to the own one, which nobody else is at.
 */
inline take_share()
{
	do
	:: me < FIXED && len(public) > 0 && has_room(me) ->
		public ? <f>;
		if
		:: may_block[f] -> f = 0; break
		:: else ->
			pop_public(f);
			/* [step: TAKE_SHARE] */
			d_step {
				where[f] = me * SLOTS + tail[me] % SLOTS;
				assert(slot[where[f]] == 0);
				slot[where[f]] = f;
				stage[f] = QUEUED;
				tail[me] = tail[me] + 1
			}
		fi
	:: else -> f = 0; break
	od
}

proctype worker(byte me)
{
	byte w, h, f, k, i;
	short need;
	bool calls, has_done, has_time;

	if
	:: me < FIXED -> goto look
	:: else
	fi;
end_absent:
	atomic { is_created[me] -> is_created[me] = false };
look:
#if FIXED > 0
	if
	:: me < FIXED ->
		ring_take(me, w);
		if
		:: w != 0 && may_block[w] ->
			flush();
			atomic { !lock -> lock = true; goto block }
		:: w != 0 && !may_block[w] ->
			atomic {
				run_short();
				if
				:: goto look
				:: skip /* for once, others' */
				fi
			}
		:: else
		fi
	:: else
	fi;
#endif
	atomic {
		!lock -> lock = true;
search:
		w = 0;
#if LIMITS
		if
		:: nr_workers > max_workers &&
		   (nr_workers > 1 || len(public) == 0) ->
			if
			:: has_done -> unlock(); flush(); goto look
			:: else -> goto leave
			fi
		:: else
		fi;
#endif
		if
		:: len(public) > 0 -> pop_public(w); goto decide
		:: len(public) == 0 && FIXED == 0 -> goto decide
		:: len(public) == 0 && FIXED > 0
		fi
	};
#if FIXED > 0
	/* [step: SLEEP_RECHECK] */
#ifndef NO_RECHECK
	if
	:: me < FIXED -> ring_take(me, w)
	:: else
	fi;
#endif
	/* [step: STEAL] */
#ifndef NO_STEAL
	do
	:: f < FIXED && w == 0 ->
		if
		:: f != me && is_open(f) -> ring_take(f, w)
		:: else
		fi;
		f++
	:: else -> f = 0; break
	od;
#endif
#endif
decide:
	atomic {
		if
		:: w != 0 && !may_block[w] ->
			take_share();
			unlock();
			run_short();
			goto look
		:: w != 0 && may_block[w] -> goto block
#ifndef SLEEP_WITHOUT_COMPLETING
		:: w == 0 && has_done -> unlock(); flush(); goto look
		:: w == 0 && !has_done
#else
		:: w == 0
#endif
		fi;
		/* [step: SLEEP_IDLE] */
		nr_searching--;
		nr_idle++;
		if
		:: nr_credits > 0 ->
			nr_credits--;
#ifdef CREDIT_WITHOUT_GOING_IDLE
			nr_searching++;
			nr_idle--;
#endif
			goto search
		:: else
		fi;
		state[me] = IDLE;
#ifndef SEQUENCE_AFTER_UNLOCK
		is_old[me] = false;
#endif
		unlock();
		if
		:: true
		:: TIMES_OUT && me >= FIXED -> has_time = true
		fi
	};
#ifdef SEQUENCE_AFTER_UNLOCK
	is_old[me] = false;
#endif
sleep:
	atomic { is_waiting[me] = !is_old[me] };
end_sleep:
	if
	:: atomic { !is_waiting[me] -> !lock -> lock = true }
	:: atomic { is_waiting[me] && has_time && !lock ->
		is_waiting[me] = false;
		lock = true;
#ifdef LEAVE_WITH_CREDIT
		goto leave_late
#endif
		if
		:: nr_credits == 0 -> goto leave_late
		:: else
		fi }
	fi;
	atomic {
		is_old[me] = false;
		if
		:: nr_credits > 0 ->
			/* [step: SLEEP_CREDIT] */
			nr_credits--;
			state[me] = SEARCHING;
			has_time = false;
			goto search
		:: else -> unlock(); goto sleep
		fi
	};
leave_late:
	atomic {
		/* [step: SLEEP_LEAVE] */
		is_old[me] = false;
		has_time = false;
		nr_idle--;
		nr_workers--;
		state[me] = ABSENT;
		unlock();
		goto end_absent
	};
#if LIMITS
leave:
	atomic {
		/* [step: LEAVE] */
		nr_searching--;
		nr_workers--;
		state[me] = ABSENT;
		ensure();
		unlock()
	};
	deliver_from_worker();
	goto end_absent;
#endif
block:
	section {
		/* [step: HAND_OFF] */
		d_step {
			state[me] = BUSY;
			nr_searching--
		};
#ifndef NO_HAND_OFF
		ensure();
#endif
		unlock()
	};
	deliver_from_worker();
	flush();
	atomic {
		if
		:: true
		:: nr_forever < FOREVER ->
			nr_forever++;
			stage[w] = STUCK;
end_forever:		false
		fi
	};
	/* [step: RETURNED] */
	nr_searching++;
	state[me] = SEARCHING;
	finish(w);
	goto look
}

/*
 * Threads that submit
 */

inline place(w)
{
	if
	:: max_workers == 0 -> stage[w] = OWNED; finish(w)
#if FIXED > 0
	:: max_workers > 0 && !may_block[w] && !is_open(0) && has_room(0) ->
		put_ring(0, w)
#endif
#if FIXED > 1
	:: max_workers > 0 && !may_block[w] && !is_open(1) && has_room(1) ->
		put_ring(1, w)
#endif
#ifdef ROUND_ROBIN
	:: max_workers > 0 && has_room(0) -> put_ring(0, w)
#endif
	:: max_workers > 0 -> put_public(w)
	fi
}

/* The owner, who counts as searching, does not get on. */
inline spill(f)
{
	do
	:: true ->
		ring_take(f, v);
		if
		:: v != 0 -> put_public(v); v = 0
		:: else -> break
		fi
	od;
	atomic {
		if
		:: nr_idle > 0 -> grant(1)
		:: else
		fi
	}
}

proctype submitter(byte w)
{
	byte v, h, k, i, n;
	short need;
	bool calls, has_only_helper;

	do
	:: w <= ITEMS ->
		section {
			atomic { !lock -> lock = true };
#if STALE
			if
			:: true
			:: !is_open(0) -> spill(0)
			fi;
#endif
			do
			:: n < BATCH && w <= ITEMS ->
				if
				:: may_block[w] = false
				:: may_block[w] = true
				fi;
				n++;
				v = w;
				w = w + SUBMITTERS;
				place(v);
				v = 0
			:: else -> n = 0; break
			od;
			has_only_helper = is_helped && nr_workers == 0;
#ifdef WAITS_FOR_THE_HELPER
			has_only_helper = false;
#endif
			ensure();
#ifndef OTHERS_PROMISE
			/* Who called has perhaps not yet learnt the outcome. */
			calls = calls || (is_manager_told && nr_workers == 0);
#endif
			unlock()
		};
		notify();
		if
		:: calls -> call_manager()
		:: else
		fi;
		/* [step: GIVE_BACK] */
		if
		:: calls || has_only_helper ->
			atomic {
				!lock -> lock = true;
#ifdef GIVE_BACK_CALLS_OFF
				is_manager_told = is_helped;
#else
				is_manager_told = (nr_workers > 0 ->
					is_manager_told && is_there : is_helped);
				is_excused = nr_workers > 0 && !is_manager_told;
#endif
				do
				:: nr_workers == 0 && len(public) > 0 ->
					pop_public(v);
					finish(v)
				:: else -> break
				od;
				calls = false;
				has_only_helper = false;
				unlock()
			}
		:: else
		fi
	:: else -> break
	od
}

proctype canceller()
{
	byte w;

	atomic {
		if
		:: stage[1] != NEW -> w = 1
		:: stage[2] != NEW -> w = 2
		:: stage[3] != NEW -> w = 3
		fi
	};
	atomic {
		!lock -> lock = true;
		if
		:: where[w] == PUBLIC ->
			/* [step: CANCEL_PUBLIC] */
			public ?? eval(w);
			nr_blocking = nr_blocking - may_block[w];
			own(w);
			finish(w);
			goto out
		:: where[w] == NOWHERE -> goto out
		:: else
		fi
	};
	atomic {
		/* [step: CANCEL_SLOT] */
		if
		:: where[w] == NOWHERE
#ifdef CANCEL_WITHOUT_COMPARE
		:: where[w] != NOWHERE ->
#else
		:: where[w] != NOWHERE && slot[where[w]] != w
		:: where[w] != NOWHERE && slot[where[w]] == w ->
#endif
			slot[where[w]] = 0;
			own(w);
			finish(w)
		fi
	};
out:
	atomic {
		assert(stage[w] != QUEUED);
		w = 0;
		unlock()
	}
}

/* The limit, set to 0 and to another number, or raised. */
proctype controller()
{
	byte k, i;
	short need;
	bool calls;

	need = LIMITS - 1;
	do
	:: atomic {
		!lock -> lock = true;
		if
		:: need == 0 -> max_workers = 0
		:: else -> max_workers = 1
#if LIMIT > 1
		:: need != 0 -> max_workers = LIMIT
#endif
		fi;
		need = 0;
		i = nr_idle;
		grant(i);
		i = 0;
		ensure();
		unlock() };
		deliver_from_worker();
		if
		:: max_workers == 0 -> need = 1
		:: true -> break
		fi
	od
}

/*
 * The manager
 */

#define is_not_busy(i) (is_awake_one(i) || is_idle_one(i))
#define may_add (nr_workers == 0 || count(is_not_busy) == 0)
#define must_help (is_manager_told && max_workers == 0 && nr_workers == 0)

proctype manager()
{
	byte w, k, i;
	short need;
	bool calls, has_time;

end_absent:
	atomic { is_begun -> is_begun = false };
look:
	/* What it finds every 100 us; that nothing has changed is left out. */
	atomic {
		!lock && (!is_manager_told || !does_lack || may_add) -> lock = true;
		is_other_relying = false;
		if
#ifndef NO_HELP_AT_ZERO
		:: must_help -> goto help
		:: !must_help && (!is_manager_told || !does_lack) ->
#else
		:: !is_manager_told || !does_lack ->
#endif
			/* [step: MANAGER_DISARM] */
			is_manager_told = false;
			unlock();
			goto await
		:: is_manager_told && does_lack ->
			/* [step: MANAGER_ADD] */
			nr_workers++;
			nr_searching++;
			unlock()
		fi
	};
	if
	:: d_step {
		i = 0;
		do
		:: state[i] == ABSENT && i >= FIXED -> break
		:: else -> i++
		od;
		state[i] = SEARCHING;
		is_created[i] = true;
		i = 0 };
		goto look
	:: REFUSES
	fi;
	section {
		atomic { !lock -> lock = true };
		/* [step: MANAGER_REFUSED] */
		d_step {
			nr_workers--;
			nr_searching--
		};
#ifndef REFUSED_WITHOUT_ENSURE
		ensure();
#endif
		has_time = nr_workers > 0;
		/* Nobody has called it off: it goes on, even at limit 0. */
		assert(is_manager_told);
		unlock()
	};
	notify();
	if
	:: calls -> call_manager()
	:: else
	fi;
	atomic {
		if
		:: has_time -> has_time = false; goto look
		:: else
		fi
	};
	atomic {
		!lock -> lock = true;
help:
		/* [step: HELP] */
		if
		:: nr_workers == 0 && len(public) > 0 ->
			pop_public(w);
			is_helped = true;
			unlock()
		:: else ->
			is_manager_told = false;
			unlock();
			goto await
		fi;
		if
		:: true
		:: LONG_HELP && len(public) == 0 ->
			/* What comes now must not have to wait. */
			stage[w] = STUCK;
end_forever:		false
		fi
	};
	finish(w);
	atomic { !lock -> is_helped = false; goto look };
await:
	atomic {
		if
		:: true
		:: TIMES_OUT -> has_time = true
		fi
	};
end_await:
	atomic {
		if
		:: is_called -> is_called = false; has_time = false; goto look
		:: !is_called && has_time ->
			is_there = false;
			has_time = false;
			goto end_absent
		fi
	}
}

/* All that the other account has in common with this one. */
proctype other()
{
	bool calls;

	is_other_relying = true;
	call_manager();
	if
	:: calls -> is_other_relying = false
	:: else
	fi
}

/*
 * The ring alone
 */

#if RING
proctype taker()
{
	byte w, h;

end_taker:
	do
	:: head[0] != tail[0] ->
		ring_take(0, w);
		if
		:: w != 0 -> finish(w)
		:: else
		fi
	od
}

proctype filler()
{
	byte w, v;

	for (w : 1 .. ITEMS) {
		atomic { !lock && has_room(0) -> lock = true };
		v = w;
		put_ring(0, v);
		v = 0;
		lock = false
	}
}
#endif

proctype judge()
{
	byte w;

end_judge:
	timeout;
	assert(!lock && nr_credits == 0 && nr_searching == 0);
	/* A regular file's request ends; till then the other account waits. */
	assert(!is_other_relying || is_helped);
	for (w : 1 .. ITEMS) {
		assert(stage[w] == DONE || stage[w] == STUCK ||
		       (stage[w] == QUEUED && is_excused && nr_workers > 0 &&
			nr_forever > 0))
	}
}

init
{
	byte i;

	atomic {
		max_workers = (LIMITS == 2 -> 1 : LIMIT);
		for (i : 1 .. ITEMS) {
			where[i] = NOWHERE
		}
#if RING
		run taker();
		run taker();
		run filler();
#else
		for (i : 0 .. LIMIT - 1) {
			if
			:: i < FIXED ->
				state[i] = SEARCHING;
				nr_workers++;
				nr_searching++
			:: else
			fi;
			run worker(i)
		}
		for (i : 1 .. SUBMITTERS) {
			run submitter(i)
		}
#if NORMAL
		run manager();
#endif
#if LIMITS
		run controller();
#endif
#if OTHER
		run other();
#endif
#endif
#if CANCELS
		run canceller();
#endif
		run judge();
		i = 0
	}
}
