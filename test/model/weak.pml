/* SPDX-License-Identifier: MIT */
/*
 * Weak memory: the accesses of src/base/atomic.h as a machine that Spin searches
 *
 * A model includes this file after it has defined LOCS, THREADS and HIST: the
 * number of locations, of threads, and of messages that one location may hold at
 * a time (an assertion fails if they are too few).
 *
 *   - A location is a list of messages in their modification order. A message has
 *     a value, and what its writer had seen if the store releases.
 *   - A thread has a view: for each location the oldest message that it may still
 *     read. A load reads any message from there on; an acquiring load joins what
 *     the message's writer had seen. A store goes to any place after the thread's
 *     view, so two threads may order their stores differently from the search.
 *   - A read-modify-write is glued to the message that it has read, and hands on
 *     what that message says its writer had seen.
 *   - seq_cst: such accesses have one order. A store gets its place there at any
 *     time up to the thread's next seq_cst load, as with STLR and LDAR: what
 *     follows a seq_cst store and is not seq_cst may be visible before it. But a
 *     seq_cst load or store that comes upon it in the same location gives it its
 *     place at once. A seq_cst load reads no message older than those that had
 *     their places when the thread's last seq_cst store got its own, or when a
 *     seq_cst store got its place from which the thread has loaded.
 *   - fence(): a seq_cst fence. The library has none; kernel calls have.
 *   - Plain accesses (put() and get()) are races unless the newest message is in
 *     the view. A thread that is to be done reading before another one writes
 *     marks that, and the writer asserts that it has seen all marks.
 *
 * It is meant to allow what RC11 and ARMv8 allow, and a little more; the litmus tests
 * of litmus.py compare it with C11. One thing it does not show, which C11 and ARMv8
 * allow: a store is never visible before an earlier load of its thread is satisfied
 * ("load buffering"). For plain accesses marks show it: a mark that is not seen.
 * Address and data dependencies order nothing here, although ARMv8 respects them.
 *
 * A model that has no seq_cst access defines NO_SEQ, for less memory.
 *
 * Orders are bits, so that a fault is a mask: see at().
 */
#define RLX 0
#define ACQ 1
#define REL 2
#define ACQ_REL 3
#define SEQ_LOAD 5
#define SEQ_STORE 6
#define SEQ_RMW 7
#define is_seq(o) (((o) & 4) != 0)

/*
 * The order of an access, which weak.py makes weaker: it sets the number of the
 * access, and the bits that are left of its order.
 */
c_decl {
	\#include <stdio.h>
	\#include <stdlib.h>
	\#include <string.h>
	static int fault_number(const char *name, int otherwise)
	{
		const char *text = getenv(name);

		return text ? atoi(text) : otherwise;
	}
}
byte weak_site, weak_dropped;
#define at(n, o) ((o) & (7 - (weak_site == (n)) * weak_dropped))
#define broken(n) (weak_site == (n))
#define take_fault() \
	c_code { \
		now.weak_site = fault_number("SITE", 255); \
		now.weak_dropped = 7 - fault_number("KEPT", 7); \
	}

#define MSGS (LOCS * HIST)
byte nr[LOCS];            /* messages; the oldest is 0 */
byte value[MSGS];
byte seen[MSGS * LOCS];   /* of the writer, if it released */
bool is_glued[MSGS];      /* to the message before */
byte view[THREADS * LOCS];
bool is_over[THREADS];    /* the thread makes no more accesses */
#define msg(x, i) ((x) * HIST + (i))
#define cell(t, x) ((t) * LOCS + (x))
#define newest(x) value[msg(x, nr[x] - 1)]

#ifdef NO_SEQ
#define with_seq(x)
#else
#define with_seq(x) x

/* seq_cst */
byte owner[MSGS];         /* whose store it is that has no place yet, + 1 */
byte sc[LOCS];            /* the newest store that has a place */
byte sc_seen[MSGS * LOCS];/* sc when the message got its place */
byte sc_view[THREADS * LOCS];
chan owed[THREADS] = [4] of { byte }; /* locations of stores without a place */
#endif

/* fences, and what kernel calls order */
byte fenced[LOCS];

/* what the last thread that had a lock had seen */
#ifdef LOCKS
byte locked[LOCKS * LOCS];
#endif
#ifdef FENCES
byte acquired[THREADS * LOCS], released[THREADS * LOCS];
#endif

byte ts_;
hidden byte i_, j_, k_, m_, x_;

#define raise_to(a, b) \
	if \
	:: (a) < (b) -> a = b \
	:: else \
	fi

#define is_free(x, i) ((i) == nr[x] || !is_glued[msg(x, i)])

/* Every timestamp of x from p_ on grows by one. */
#define shift_up(a) \
	if \
	:: a >= p_ -> a = a + 1 \
	:: else \
	fi
#define shift_down(a) a = (a >= m_ -> a - m_ : 0)
hidden byte p_;

/* In a d_step. A new message of x at place p_, empty. */
inline make_room(x)
{
	assert(nr[x] < HIST);
	i_ = nr[x];
	do
	:: i_ > p_ ->
		value[msg(x, i_)] = value[msg(x, i_ - 1)];
		is_glued[msg(x, i_)] = is_glued[msg(x, i_ - 1)];
		with_seq(owner[msg(x, i_)] = owner[msg(x, i_ - 1)];)
		for (j_ : 0 .. LOCS - 1) {
			with_seq(sc_seen[cell(msg(x, i_), j_)] =
				 sc_seen[cell(msg(x, i_ - 1), j_)];)
			seen[cell(msg(x, i_), j_)] = seen[cell(msg(x, i_ - 1), j_)]
		}
		i_--
	:: else -> break
	od;
	nr[x] = nr[x] + 1;
	if
	:: p_ + 1 < nr[x] ->
		for (i_ : 0 .. THREADS - 1) {
			with_seq(shift_up(sc_view[cell(i_, x)]);)
			shift_up(view[cell(i_, x)])
#ifdef FENCES
			;
			shift_up(acquired[cell(i_, x)]);
			shift_up(released[cell(i_, x)])
#endif
		}
		with_seq(shift_up(sc[x]);)
		shift_up(fenced[x]);
#ifdef LOCKS
		for (i_ : 0 .. LOCKS - 1) {
			shift_up(locked[cell(i_, x)])
		}
#endif
		for (i_ : 0 .. MSGS - 1) {
			with_seq(shift_up(sc_seen[cell(i_, x)]);)
			shift_up(seen[cell(i_, x)])
		}
	:: else
	fi;
	is_glued[msg(x, p_)] = false;
	with_seq(owner[msg(x, p_)] = 0;)
	for (j_ : 0 .. LOCS - 1) {
		with_seq(sc_seen[cell(msg(x, p_), j_)] = 0;)
		seen[cell(msg(x, p_), j_)] = 0
	}
}

/* In a d_step. Messages that no thread can read any more are forgotten. */
inline forget_old()
{
	for (x_ : 0 .. LOCS - 1) {
		m_ = nr[x_] - 1;
		for (i_ : 0 .. THREADS - 1) {
			if
			:: !is_over[i_] && view[cell(i_, x_)] < m_ ->
				m_ = view[cell(i_, x_)]
			:: else
			fi
		}
#ifndef NO_SEQ
		i_ = 0;
		do
		:: i_ < m_ && owner[msg(x_, i_)] != 0 -> m_ = i_
		:: i_ < m_ && owner[msg(x_, i_)] == 0 -> i_++
		:: else -> break
		od;
#endif
		if
		:: m_ > 0 ->
			for (i_ : 0 .. HIST - 1) {
				if
				:: i_ + m_ < nr[x_] ->
					value[msg(x_, i_)] =
						value[msg(x_, i_ + m_)];
					is_glued[msg(x_, i_)] = i_ > 0 &&
						is_glued[msg(x_, i_ + m_)];
					with_seq(owner[msg(x_, i_)] =
						 owner[msg(x_, i_ + m_)];)
					for (j_ : 0 .. LOCS - 1) {
						with_seq(sc_seen[cell(msg(x_, i_), j_)] =
							 sc_seen[cell(msg(x_, i_ + m_), j_)];)
						seen[cell(msg(x_, i_), j_)] =
							seen[cell(msg(x_, i_ + m_), j_)]
					}
				:: else ->
					value[msg(x_, i_)] = 0;
					is_glued[msg(x_, i_)] = false;
					with_seq(owner[msg(x_, i_)] = 0;)
					for (j_ : 0 .. LOCS - 1) {
						with_seq(sc_seen[cell(msg(x_, i_), j_)] = 0;)
						seen[cell(msg(x_, i_), j_)] = 0
					}
				fi
			}
			nr[x_] = nr[x_] - m_;
			for (i_ : 0 .. THREADS - 1) {
				with_seq(shift_down(sc_view[cell(i_, x_)]);)
				shift_down(view[cell(i_, x_)])
#ifdef FENCES
				;
				shift_down(acquired[cell(i_, x_)]);
				shift_down(released[cell(i_, x_)])
#endif
			}
			with_seq(shift_down(sc[x_]);)
			shift_down(fenced[x_]);
#ifdef LOCKS
			for (i_ : 0 .. LOCKS - 1) {
				shift_down(locked[cell(i_, x_)])
			}
#endif
			for (i_ : 0 .. MSGS - 1) {
				with_seq(shift_down(sc_seen[cell(i_, x_)]);)
				shift_down(seen[cell(i_, x_)])
			}
		:: else
		fi
	};
	x_ = 0
}

#ifdef NO_SEQ
#define settle(t, o) skip
#define oldest(t, x, o) view[cell(t, x)]
#define last_seen(t, x, o) view[cell(t, x)]
#define may_replace(x, o, i) is_free(x, (i) + 1)
#else
/* In a d_step. The oldest seq_cst store of u that has no place gets one. */
inline give_place(u)
{
	owed[u] ? x_;
	i_ = 0;
	do
	:: owner[msg(x_, i_)] == (u) + 1 -> break
	:: else -> i_++
	od;
	owner[msg(x_, i_)] = 0;
	raise_to(sc[x_], i_);
	for (j_ : 0 .. LOCS - 1) {
		sc_seen[cell(msg(x_, i_), j_)] = sc[j_];
		sc_view[cell(u, j_)] = sc[j_]
	}
}

/* Before a seq_cst load, in an atomic step. */
inline settle(t, o)
{
	d_step {
		do
		:: is_seq(o) && len(owed[t]) > 0 -> give_place(t)
		:: else -> break
		od;
		x_ = 0;
		i_ = 0
	}
}

/* Stores get their places at some time. */
active proctype places()
{
	byte u;

end_places:
	do
	:: atomic {
		len(owed[0]) > 0 -> d_step { give_place(0); x_ = 0; i_ = 0 } }
#if THREADS > 1
	:: atomic {
		len(owed[1]) > 0 -> d_step { give_place(1); x_ = 0; i_ = 0 } }
#endif
#if THREADS > 2
	:: atomic {
		len(owed[2]) > 0 -> d_step { give_place(2); x_ = 0; i_ = 0 } }
#endif
#if THREADS > 3
	:: atomic {
		len(owed[3]) > 0 -> d_step { give_place(3); x_ = 0; i_ = 0 } }
#endif
	od
}

#define oldest(t, x, o) \
	(is_seq(o) && sc_view[cell(t, x)] > view[cell(t, x)] -> \
	 sc_view[cell(t, x)] : view[cell(t, x)])
/* What a store must not come before. */
#define last_seen(t, x, o) \
	(is_seq(o) && sc[x] > view[cell(t, x)] -> sc[x] : view[cell(t, x)])
#define may_replace(x, o, i) \
	(is_free(x, (i) + 1) && (!is_seq(o) || (i) >= sc[x]))
#endif

/* In a d_step. Thread t has read message ts_ of x. */
inline note_read(t, x, o)
{
	raise_to(view[cell(t, x)], ts_);
#ifndef NO_SEQ
	if
	:: is_seq(o) ->
		do
		:: owner[msg(x, ts_)] != 0 ->
			m_ = owner[msg(x, ts_)] - 1;
			give_place(m_)
		:: else -> break
		od;
		for (j_ : 0 .. LOCS - 1) {
			raise_to(sc_view[cell(t, j_)], sc_seen[cell(msg(x, ts_), j_)])
		}
	:: else
	fi;
#endif
	for (j_ : 0 .. LOCS - 1) {
		if
		:: ((o) & ACQ) ->
			raise_to(view[cell(t, j_)], seen[cell(msg(x, ts_), j_)])
		:: else
		fi
#ifdef FENCES
		;
		raise_to(acquired[cell(t, j_)], seen[cell(msg(x, ts_), j_)])
#endif
	}
}

/* In a d_step. Thread t writes v to x, as message p_. */
inline note_write(t, x, o, v)
{
	make_room(x);
	value[msg(x, p_)] = v;
	view[cell(t, x)] = p_;
	seen[cell(msg(x, p_), x)] = p_;
	for (j_ : 0 .. LOCS - 1) {
		if
		:: ((o) & REL) -> seen[cell(msg(x, p_), j_)] = view[cell(t, j_)]
		:: else
#ifdef FENCES
			-> raise_to(seen[cell(msg(x, p_), j_)], released[cell(t, j_)])
#endif
		fi
	}
#ifdef NO_SEQ
	assert(!is_seq(o));
#else
	if
	:: is_seq(o) ->
		owner[msg(x, p_)] = (t) + 1;
		owed[t] ! x;
		/* Places are in modification order. */
		k_ = 0;
		do
		:: k_ < p_ && owner[msg(x, k_)] != 0 &&
		   owner[msg(x, k_)] != (t) + 1 ->
			m_ = owner[msg(x, k_)] - 1;
			give_place(m_)
		:: k_ < p_ && (owner[msg(x, k_)] == 0 ||
			       owner[msg(x, k_)] == (t) + 1) -> k_++
		:: else -> break
		od;
		k_ = p_;
		do
		:: k_ < nr[x] && owner[msg(x, k_)] != 0 &&
		   owner[msg(x, k_)] != (t) + 1 ->
			do
			:: len(owed[t]) > 0 -> give_place(t)
			:: else -> break
			od;
			break
		:: k_ < nr[x] && (owner[msg(x, k_)] == 0 ||
				  owner[msg(x, k_)] == (t) + 1) -> k_++
		:: else -> break
		od;
		k_ = 0
	:: else
	fi;
#endif
	j_ = 0
}

/*
 * The accesses. r is a variable of the caller's; v reads no memory of the machine. Spin takes no "->" in what
 * is handed to an inline, and no jump into a d_step: hence "true".
 */

inline load(t, x, o, r)
{
	atomic {
		settle(t, o);
		ts_ = oldest(t, x, o);
		do
		:: ts_ + 1 < nr[x] -> ts_++
		:: break
		od;
		true;
		d_step {
			note_read(t, x, o);
			r = value[msg(x, ts_)];
			ts_ = 0;
			forget_old()
		}
	}
}

inline store(t, x, o, v)
{
	atomic {
		ts_ = last_seen(t, x, o) + 1;
		do
		:: ts_ < nr[x] -> ts_++
		:: is_free(x, ts_) -> break
		od;
		true;
		d_step {
			p_ = ts_;
			note_write(t, x, o, v);
			ts_ = 0;
			forget_old()
		}
	}
}

/* In a d_step, after note_read(): v replaces the message that was read. */
inline replace(t, x, o, v)
{
	p_ = ts_ + 1;
	note_write(t, x, o, v);
	is_glued[msg(x, p_)] = true;
	for (j_ : 0 .. LOCS - 1) {
		raise_to(seen[cell(msg(x, p_), j_)], seen[cell(msg(x, ts_), j_)])
	}
}

/* v is an expression in which r is the value that was read. */
inline rmw(t, x, o, r, v)
{
	atomic {
		settle(t, o);
		ts_ = oldest(t, x, o);
		do
		:: ts_ + 1 < nr[x] -> ts_++
		:: may_replace(x, o, ts_) -> break
		od;
		true;
		d_step {
			note_read(t, x, o);
			r = value[msg(x, ts_)];
			replace(t, x, o, v);
			ts_ = 0;
			forget_old()
		}
	}
}

/* r is the value that was read: e if the exchange was made. otherwise: its order if not. */
inline cas(t, x, o, otherwise, e, v, r)
{
	atomic {
		settle(t, o);
		ts_ = oldest(t, x, o);
		do
		:: ts_ + 1 < nr[x] -> ts_++
		:: value[msg(x, ts_)] != (e) || may_replace(x, o, ts_) -> break
		od;
		true;
		d_step {
			r = value[msg(x, ts_)];
			if
			:: r == (e) ->
				note_read(t, x, o);
				replace(t, x, o, v)
			:: else ->
				note_read(t, x, otherwise)
			fi;
			ts_ = 0;
			forget_old()
		}
	}
}

/*
 * Data that is no atomic variable. Who writes where others have read marks his
 * reads in a location that only he marks, and the writer has to have seen the marks.
 */

#define has_seen_all(t, x) (view[cell(t, x)] == nr[x] - 1)

inline get(t, x, r)
{
	atomic {
		true;
		d_step {
			assert(has_seen_all(t, x));
			r = newest(x)
		}
	}
}

inline put(t, x, v)
{
	atomic {
		true;
		d_step {
			assert(has_seen_all(t, x));
			p_ = nr[x];
			note_write(t, x, RLX, v);
			forget_old()
		}
	}
}

inline mark(t, x)
{
	atomic {
		true;
		d_step {
			p_ = nr[x];
			note_write(t, x, RLX, 0);
			forget_old()
		}
	}
}

/* In a d_step or an atomic step. */
inline fence_now(t)
{
	for (j_ : 0 .. LOCS - 1) {
#ifdef FENCES
		raise_to(view[cell(t, j_)], acquired[cell(t, j_)]);
#endif
		raise_to(view[cell(t, j_)], fenced[j_]);
		fenced[j_] = view[cell(t, j_)]
#ifdef FENCES
		;
		released[cell(t, j_)] = view[cell(t, j_)]
#endif
	};
	j_ = 0
}

inline fence(t)
{
	atomic {
		true;
		d_step {
			fence_now(t);
			forget_old()
		}
	}
}

/*
 * A lock, for what is no matter of the lock itself: in an atomic step, which begins
 * with take(), ends with give(), and makes one access at most that threads without
 * the lock make, too.
 */
#ifdef LOCKS
inline take(t, l)
{
	d_step {
		for (j_ : 0 .. LOCS - 1) {
			raise_to(view[cell(t, j_)], locked[cell(l, j_)])
		};
		j_ = 0
	}
}

inline give(t, l)
{
	d_step {
		for (j_ : 0 .. LOCS - 1) {
			locked[cell(l, j_)] = view[cell(t, j_)]
		};
		forget_old()
	}
}
#endif

/*
 * Futexes. The kernel has a full barrier before it compares the word, and one
 * before it looks for threads to wake.
 */

byte asleep[THREADS]; /* on which location, + 1 */

inline futex_wait(t, x, e)
{
	atomic {
		d_step { fence_now(t) };
		ts_ = view[cell(t, x)];
		do
		:: ts_ + 1 < nr[x] -> ts_++
		:: break
		od;
		true;
		d_step {
			note_read(t, x, RLX);
			if
			:: value[msg(x, ts_)] == (e) -> asleep[t] = (x) + 1
			:: else
			fi;
			ts_ = 0;
			forget_old()
		}
	}
	asleep[t] == 0
}

inline wake_one_(u, x)
{
	if
	:: asleep[u] == (x) + 1 -> asleep[u] = 0
	:: else
	fi
}

inline futex_wake_all(t, x)
{
	atomic {
		true;
		d_step {
			fence_now(t);
			for (i_ : 0 .. THREADS - 1) {
				wake_one_(i_, x)
			};
			i_ = 0
		}
	}
}

#define sleeps(u, x) (u < THREADS && asleep[u] == (x) + 1)

inline futex_wake_one(t, x)
{
	atomic {
		d_step { fence_now(t) };
		if
		:: sleeps(0, x) -> asleep[0] = 0
#if THREADS > 1
		:: sleeps(1, x) -> asleep[1] = 0
#endif
#if THREADS > 2
		:: sleeps(2, x) -> asleep[2] = 0
#endif
#if THREADS > 3
		:: sleeps(3, x) -> asleep[3] = 0
#endif
		:: else
		fi
	}
}

/* The thread makes no more accesses. */
inline is_done(t)
{
	atomic {
		true;
		d_step {
			is_over[t] = true;
			for (j_ : 0 .. LOCS - 1) {
				with_seq(sc_view[cell(t, j_)] = 0;)
				view[cell(t, j_)] = 0
			}
			forget_old()
		}
	}
}

/* In init, for each location. */
inline first_value(x, v)
{
	nr[x] = 1;
	value[msg(x, 0)] = v
}
