/* SPDX-License-Identifier: MIT */
/*
 * What clients share with the library: [MB:uring-sq], [MB:uring-cq], [MB:aiocb]
 *
 * A client submits two requests through one slot of the submission ring, another
 * thread of it reaps their completions from one slot of the completion ring; the
 * library takes and completes them: take_in() and pass() of uring/sq.c, room()
 * and publish() of uring/cq.c. Or a program polls the error code of an aiocb, and
 * uses its memory again: answer() of posix/door.c. The client's accesses are those of
 * liburing, and of a program that calls aio_error().
 */
#define LOCS 9
#define THREADS 3
#define HIST 5
#define NO_SEQ
#include "weak.pml"

#define SQ_TAIL 0
#define SQ_HEAD 1
#define SQE 2
#define SQE_READ 3 /* marks */
#define CQ_TAIL 4
#define CQ_HEAD 5
#define CQE 6
#define CQE_READ 7
#define PROGRESS 8
#define ERROR_CODE 0 /* of an aiocb */
#define RETURN_VALUE 2

#define CLIENT 0
#define LIBRARY 1
#define REAPER 2
#define REQUESTS 2

bool is_posix;
byte nr_over;

proctype client()
{
	byte i, r;

	if
	:: is_posix ->
		/* aio_error(), uaio_posix_error() */
		do
		:: load(CLIENT, ERROR_CODE, at(AIO_ERROR, ACQ), r);
			if
			:: r == 1 -> break
			:: else -> newest(ERROR_CODE) == 1
			fi
		od;
		get(CLIENT, RETURN_VALUE, r);
		assert(r == 7);
		/* It frees the aiocb. */
		put(CLIENT, RETURN_VALUE, 0)
	:: else ->
		for (i : 1 .. REQUESTS) {
			do
			:: load(CLIENT, SQ_HEAD, ACQ, r);
				if
				:: r == i - 1 -> break
				:: else -> newest(SQ_HEAD) == i - 1
				fi
			od;
			assert(has_seen_all(CLIENT, SQE_READ));
			put(CLIENT, SQE, i);
			store(CLIENT, SQ_TAIL, REL, i)
		}
	fi;
	is_done(CLIENT);
	nr_over++
}

proctype library()
{
	byte i, r;

	if
	:: is_posix ->
		/* answer() */
		put(LIBRARY, RETURN_VALUE, 7);
		store(LIBRARY, ERROR_CODE, at(ANSWER, REL), 1)
	:: else ->
		for (i : 1 .. REQUESTS) {
			do
			:: load(LIBRARY, SQ_TAIL, at(SUBMIT, ACQ), r);
				if
				:: r == i -> break
				:: else -> newest(SQ_TAIL) == i
				fi
			od;
			get(LIBRARY, SQE, r);
			assert(r == i);
			mark(LIBRARY, SQE_READ);
			store(LIBRARY, SQ_HEAD, at(PASS, REL), i);
			/* room(); without it the completion is kept elsewhere */
			do
			:: load(LIBRARY, CQ_HEAD, at(ROOM, ACQ), r);
				if
				:: r == i - 1 -> break
				:: else -> newest(CQ_HEAD) == i - 1
				fi
			od;
			assert(has_seen_all(LIBRARY, CQE_READ));
			put(LIBRARY, CQE, i);
			/* publish() */
			if
			:: !broken(PROGRESS_LAST) -> store(LIBRARY, PROGRESS, RLX, i)
			:: else
			fi;
			store(LIBRARY, CQ_TAIL, at(PUBLISH, REL), i);
			if
			:: broken(PROGRESS_LAST) -> store(LIBRARY, PROGRESS, RLX, i)
			:: else
			fi
		}
	fi;
	is_done(LIBRARY);
	nr_over++
}

proctype reaper()
{
	byte i, r;

	if
	:: is_posix
	:: else ->
		for (i : 1 .. REQUESTS) {
			do
			:: load(REAPER, CQ_TAIL, ACQ, r);
				if
				:: r == i -> break
				:: else -> newest(CQ_TAIL) == i
				fi
			od;
			/* A wait of its own begins with what it has seen. */
			load(REAPER, PROGRESS, RLX, r);
			assert(r >= i);
			get(REAPER, CQE, r);
			assert(r == i);
			mark(REAPER, CQE_READ);
			store(REAPER, CQ_HEAD, REL, i)
		}
	fi;
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
		i = 0;
		if
		:: is_posix = true
		:: is_posix = false
		fi;
		run client();
		run library();
		run reaper()
	}
	timeout;
	assert(nr_over == THREADS)
}
