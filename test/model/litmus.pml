/* SPDX-License-Identifier: MIT */
/*
 * Litmus tests: weak.pml is compared with what C11 allows and forbids
 *
 * One program runs any test: litmus.py has the tests, and hands one over in the
 * environment. Each end of a run prints what was read, and the last values.
 */
#define LOCS 2
#define THREADS 4
#define HIST 4
#define FENCES
#include "weak.pml"

#define STORE 0
#define LOAD 1
#define ADD 2
#define FENCE 3
#define END 4

c_decl {
	enum { MOST = 8 };
	/* what, location, order, value or register */
	static unsigned program[4][MOST + 1][4];

	static void read_program(void)
	{
		const char *text = getenv("LITMUS");
		int thread, taken;

		for (thread = 0; thread < 4; thread++) {
			int i = 0;

			while (i < MOST && text &&
			       sscanf(text, " %u %u %u %u %n",
				      &program[thread][i][0],
				      &program[thread][i][1],
				      &program[thread][i][2],
				      &program[thread][i][3], &taken) == 4) {
				text += taken;
				i++;
			}
			program[thread][i][0] = 4;
			while (text && (*text == ' ' || *text == '|'))
				text++;
		}
	}
}

byte found[4];
byte nr_over;

proctype thread(byte me)
{
	byte pc, what, x, o, v, r;

	do
	:: d_step {
		c_code {
			const unsigned *step =
				program[Pthread->me][Pthread->pc];

			Pthread->what = step[0];
			Pthread->x = step[1];
			Pthread->o = step[2];
			Pthread->v = step[3];
		};
		pc++ };
		if
		:: what == STORE -> store(me, x, o, v)
		:: what == LOAD -> load(me, x, o, r); found[v] = r
		:: what == ADD -> rmw(me, x, o, r, r + 1); found[v] = r
		:: what == FENCE -> fence(me)
		:: what == END -> break
		fi;
		d_step { what = 0; x = 0; o = 0; v = 0; r = 0 }
	od;
	is_done(me);
	nr_over++
}

init
{
	atomic {
		c_code { read_program(); };
		first_value(0, 0);
		first_value(1, 0);
		run thread(0);
		run thread(1);
		run thread(2);
		run thread(3);
		nr_over == 4;
		c_code {
			printf("end %d %d %d %d %d %d\n", now.found[0],
			       now.found[1], now.found[2], now.found[3],
			       now.value[now.nr[0] - 1],
			       now.value[4 + now.nr[1] - 1]);
		}
	}
}
