/* SPDX-License-Identifier: MIT */
/*
 * The hand-off protocols of the work queue: rings, credits, watcher. Draft: not
 * yet part of the tests.
 */
#ifndef FIXED
#define FIXED 1
#endif
#ifndef NORMAL
#define NORMAL 1
#endif
#ifndef WORKS
#define WORKS 4
#endif
#ifndef BATCH
#define BATCH 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef FOREVER
#define FOREVER 1
#endif
#ifndef REFUSALS
#define REFUSALS 1
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#define LIMIT (FIXED + NORMAL)

#define NEW 0
#define QUEUED 1
#define OWNED 2
#define DONE 3
#define STUCK 4

#define ABSENT 0
#define SEARCHING 1
#define BLOCKED 2
#define IDLE 3

#define PUBLIC 255

bool lock;
chan public = [WORKS] of { byte };
byte nr_public_block;
byte nr_idle, nr_searching, nr_credits, nr_workers;
bool armed;

bool asleep[LIMIT], blocked[LIMIT];
byte slot[LIMIT * SLOTS];
byte head[LIMIT], tail[LIMIT];

bool stale[LIMIT], in_futex[LIMIT];
bool born[LIMIT];

bool may_block[WORKS + 1];
byte where[WORKS + 1];

byte life[WORKS + 1];
byte state[LIMIT];
byte nr_forever;
byte nr_refused;

#define is_away(f) (asleep[f] || blocked[f])
#define nr_in_ring(f) (tail[f] - head[f])
#define away(f) (is_away(f) -> nr_in_ring(f) : 0)
#define nr_real(f) ((slot[(f) * SLOTS] != 0) + (slot[(f) * SLOTS + 1] != 0))
#define away_real(f) (is_away(f) -> nr_real(f) : 0)
#if FIXED == 0
#define rings(x) 0
#elif FIXED == 1
#define rings(x) (x(0))
#else
#define rings(x) (x(0) + x(1))
#endif
#define nr_public_need (nr_public_block + (len(public) > nr_public_block -> 1 : 0))

inline own(w) { assert(life[w] == QUEUED); life[w] = OWNED }
inline finish(w) { assert(life[w] == OWNED); life[w] = DONE; may_block[w] = false; where[w] = 0; w = 0 }

inline ring_take(f, w)
{
	do
	:: h = head[f];
	   if
	   :: h == tail[f] -> w = 0; h = 0; break
	   :: else
	   fi;
#ifdef ADVANCE_FIRST
	   atomic { head[f] == h -> head[f] = h + 1 };
#endif
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

inline pop_public(w)
{
	public ? w;
	nr_public_block = nr_public_block - may_block[w];
	own(w)
}

inline ensure()
{
	need = nr_public_need;
#if FIXED > 0
	need = need + away(0);
#endif
#if FIXED > 1
	need = need + away(1);
#endif
	d_step {
		need = need - nr_searching;
		if
		:: need <= 0 -> k = 0
		:: need > 0 && need <= nr_idle -> k = need
		:: else -> k = nr_idle
		fi;
		nr_idle = nr_idle - k;
		nr_searching = nr_searching + k;
#ifndef WAKE_WITHOUT_CREDIT
		nr_credits = nr_credits + k;
#endif
#ifndef NO_ARM
		if
		:: need > k && nr_workers < LIMIT -> armed = true
		:: else
		fi;
#endif
		need = 0
	}
}

inline advance_sequence()
{
	d_step {
		for (i : 0 .. LIMIT - 1) {
			stale[i] = state[i] == IDLE && !in_futex[i]
		}
		i = 0
	}
}

inline futex_wake()
{
	atomic {
		do
		:: k > 0 ->
			if
			:: in_futex[0] -> in_futex[0] = false
#if LIMIT > 1
			:: in_futex[1] -> in_futex[1] = false
#endif
#if LIMIT > 2
			:: in_futex[2] -> in_futex[2] = false
#endif
			:: else
			fi;
			k--
		:: else -> break
		od
	}
}

inline deliver()
{
	if
	:: k > 0 ->
#ifdef WAKE_BEFORE_SEQUENCE
		i = k;
		futex_wake();
		advance_sequence()
#else
		advance_sequence();
		futex_wake()
#endif
	:: else
	fi
}

proctype worker(byte me)
{
	byte w, h, f, k, i;
	short need;
	bool timed_out;

	if
	:: me < FIXED -> goto look
	:: else
	fi;
end_absent:
	atomic { born[me] -> born[me] = false };
look:
	if
	:: me < FIXED ->
		ring_take(me, w);
		if
		:: w != 0 && may_block[w] ->
			atomic { !lock -> lock = true };
			goto block
		:: w != 0 && !may_block[w] ->
			atomic { finish(w);
			if
			:: goto look
			:: skip
			fi }
		:: else
		fi
	:: else
	fi;
	atomic { !lock -> lock = true };
search:
	if
	:: atomic { len(public) > 0 -> pop_public(w) }
	:: else ->
#ifndef NO_RECHECK
		if
		:: me < FIXED -> ring_take(me, w)
		:: else
		fi;
#endif
#ifndef NO_STEAL
		f = 0;
		do
		:: f < FIXED && w == 0 ->
			if
			:: f != me && is_away(f) -> ring_take(f, w)
			:: else
			fi;
			f++
		:: else -> f = 0; break
		od
#endif
	fi;
	if
	:: w != 0 && !may_block[w] ->
		atomic { lock = false; finish(w) };
		goto look
	:: w != 0 && may_block[w] ->
		goto block
	:: else
	fi;
	atomic {
		nr_searching--;
		nr_idle++;
		if
		:: nr_credits > 0 ->
			nr_credits--;
#ifdef CREDIT_LITERAL
			nr_searching++;
			nr_idle--;
#endif
			goto search
		:: else
		fi;
		asleep[me] = me < FIXED;
		state[me] = IDLE;
#ifdef SEQUENCE_AFTER_UNLOCK
		lock = false
	};
	stale[me] = false;
#else
		stale[me] = false;
		lock = false
	};
#endif
sleep:
	atomic {
		if
		:: stale[me]
		:: else -> in_futex[me] = true
		fi
	};
end_sleep:
	if
	:: atomic { !in_futex[me] -> timed_out = false }
#if TIMEOUTS
	:: atomic { in_futex[me] && me >= FIXED -> in_futex[me] = false; timed_out = true }
#endif
	fi;
	atomic {
		!lock -> lock = true;
		if
#ifdef LEAVE_WITH_CREDIT
		:: nr_credits > 0 && !timed_out ->
#else
		:: nr_credits > 0 ->
#endif
			nr_credits--;
			asleep[me] = false;
			stale[me] = false;
			state[me] = SEARCHING;
			timed_out = false;
			goto search
		:: else
		fi;
		if
		:: timed_out ->
			nr_idle--;
			nr_workers--;
			state[me] = ABSENT;
			stale[me] = false;
			timed_out = false;
			lock = false;
			goto end_absent
		:: else ->
			stale[me] = false;
			lock = false;
			goto sleep
		fi
	};
block:
	atomic {
		blocked[me] = me < FIXED;
		state[me] = BLOCKED;
		nr_searching--
	};
#ifndef NO_HANDOFF
	ensure();
#endif
	lock = false;
	deliver();
	atomic {
		if
		:: skip
		:: nr_forever < FOREVER ->
			nr_forever++;
			life[w] = STUCK;
end_forever:		false
		fi
	};
	if
	:: me < FIXED -> blocked[me] = false
	:: else
	fi;
	atomic {
		nr_searching++;
		state[me] = SEARCHING;
		finish(w)
	};
	goto look
}

inline put_ring(f)
{
	atomic {
		where[w] = f * SLOTS + tail[f] % SLOTS;
		assert(slot[where[w]] == 0);
		life[w] = QUEUED;
#ifdef TAIL_FIRST
	};
	tail[f] = tail[f] + 1;
	slot[where[w]] = w
#else
		slot[where[w]] = w
	};
	tail[f] = tail[f] + 1
#endif
}

inline put_public()
{
	atomic {
		where[w] = PUBLIC;
		life[w] = QUEUED;
		nr_public_block = nr_public_block + may_block[w];
		public ! w
	}
}

#define has_room(f) (!is_away(f) && nr_in_ring(f) < SLOTS)

proctype producer()
{
	byte w, k, i, n;
	short need;

	w = 1;
	do
	:: w <= WORKS ->
		atomic { !lock -> lock = true };
		n = 0;
		do
		:: n < BATCH && w <= WORKS ->
			if
			:: may_block[w] = false
			:: may_block[w] = true
			fi;
			if
#if FIXED > 0
			:: has_room(0) -> put_ring(0)
#endif
#if FIXED > 1
			:: has_room(1) -> put_ring(1)
#endif
			:: put_public()
			fi;
			w++;
			n++
		:: else -> n = 0; break
		od;
		ensure();
		lock = false;
		deliver()
	:: else -> break
	od
}

#ifdef TAKERS
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

proctype ring_producer()
{
	byte w;
	for (w : 1 .. WORKS) {
		atomic { !lock && nr_in_ring(0) < SLOTS -> lock = true };
		put_ring(0);
		lock = false
	}
}
#endif

proctype canceller()
{
	byte w;
	atomic {
		if
		:: life[1] != NEW -> w = 1
		:: life[2] != NEW -> w = 2
		:: life[3] != NEW -> w = 3
#if WORKS > 3
		:: life[4] != NEW -> w = 4
#endif
		fi
	};
	atomic {
		!lock -> lock = true;
		if
		:: where[w] == PUBLIC ->
			if
			:: public ?? [eval(w)] ->
				public ?? eval(w);
				nr_public_block = nr_public_block - may_block[w];
				own(w); finish(w)
			:: else
			fi;
			goto out
		:: else
		fi
	};
	atomic {
#ifdef CANCEL_WITHOUT_COMPARE
		if
		:: true ->
#else
		if
		:: slot[where[w]] == w ->
#endif
			slot[where[w]] = 0;
			own(w); finish(w)
		:: else
		fi
	};
out:
	atomic { assert(life[w] != QUEUED); lock = false; w = 0 }
}

proctype watcher()
{
	byte w, k, i;
	short need;
end_watch:
	do
	:: atomic {
		armed && !lock && nr_public_need + rings(away) <= nr_searching ->
		armed = false }
	:: atomic {
		armed && !lock && nr_public_need + rings(away) > nr_searching &&
		nr_idle == 0 && nr_workers < LIMIT ->
		nr_workers++;
		nr_searching++ };
		if
		:: atomic {
			if
			:: state[LIMIT - 1] == ABSENT -> i = LIMIT - 1
#if NORMAL > 1
			:: state[LIMIT - 2] == ABSENT -> i = LIMIT - 2
#endif
#if NORMAL > 2
			:: state[LIMIT - 3] == ABSENT -> i = LIMIT - 3
#endif
			fi;
			state[i] = SEARCHING;
			born[i] = true;
			i = 0 }
		:: nr_refused < REFUSALS ->
			atomic {
			!lock ->
			nr_refused++;
			lock = true;
			nr_workers--;
			nr_searching-- };
#ifndef UNDO_LITERAL
			ensure();
#endif
			if
			:: atomic { nr_workers == 0 && len(public) > 0 ->
				pop_public(w) };
				lock = false;
				deliver();
#ifdef WATCHER_BLOCKS
				atomic {
					if
					:: skip
					:: may_block[w] && nr_forever < FOREVER ->
						nr_forever++;
						life[w] = STUCK;
end_watcher:					false
					fi
				};
#endif
				atomic { finish(w) }
			:: else ->
				lock = false;
				deliver()
			fi
		fi
	od
}

#define broken_rule \
	(nr_public_need + rings(away_real) > nr_searching && \
	 (nr_idle > 0 || (nr_workers < LIMIT && !armed)))

#define count1(s) (state[0] == s)
#if LIMIT == 1
#define count(s) count1(s)
#elif LIMIT == 2
#define count(s) (count1(s) + (state[1] == s))
#else
#define count(s) (count1(s) + (state[1] == s) + (state[2] == s))
#endif

proctype monitor()
{
end_monitor:
	if
	:: atomic { !lock && broken_rule -> assert(!broken_rule) }
	:: atomic { !lock && nr_idle + nr_credits != count(IDLE) -> assert(false) }
	fi
}

proctype judge()
{
	byte w;
end_judge:
	timeout;
#ifndef WEAK_JUDGE
	assert(!lock && nr_credits == 0 && nr_searching == 0);
#endif
	for (w : 1 .. WORKS) {
		assert(life[w] == DONE || life[w] == STUCK)
	}
}

init
{
	byte i;
	atomic {
		for (i : 0 .. LIMIT - 1) {
			if
			:: i < FIXED -> state[i] = SEARCHING; nr_workers++; nr_searching++
			:: else
			fi;
			run worker(i)
		}
		i = 0;
#ifdef TAKERS
		run taker(); run taker(); run ring_producer(); run canceller();
#if TAKERS > 2
		run taker();
#endif
		run judge(); goto out;
#endif
		run producer();
#if CANCELS
		run canceller();
#endif
#if NORMAL
		run watcher();
#endif
#ifndef NO_MONITOR
		run monitor();
#endif
		run judge();
out:	skip
	}
}
