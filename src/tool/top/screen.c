/* SPDX-License-Identifier: MIT */
/*
 * The program uaio-top, which `uaio top` (top.h) executes: shows the tables on the
 * terminal
 *
 * Terminating signals are blocked, except while ppoll() waits. So a signal does not
 * interrupt the drawing, and the program can restore the terminal before it ends.
 *
 * Tested by test/run/top.py.
 */
#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "tool/tool.h"
#include "tool/top/top.h"

enum {
	/*
	 * screen line of the table's first row, below the header and the column titles
	 */
	FIRST_ROW = 2,
	NS_PER_S = 1000000000,
};

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
enum { NR_ENDING = sizeof(ending) / sizeof(ending[0]) };

static int ended_by; /* terminating signal that has arrived; 0: none */

struct view {
	struct uaio_top *top;
	unsigned first; /* index of the table's row at the top of the screen */
	unsigned nr_samples;
	bool is_paused, is_over;
	/* a key has changed the table: take a new sample at once */
	bool is_new;
	sigset_t waiting; /* the signal mask for ppoll() */
};

static void note_end(int sig)
{
	store_relaxed(&ended_by,
		      sig); /* relaxed: only this thread reads ended_by */
}

/*
 * Block terminating signals and set their handlers. Call this before curses starts:
 * curses keeps handlers that are already set.
 */
static void catch_signals(struct view *view)
{
	const struct sigaction action = { .sa_handler = note_end };
	sigset_t blocked;

	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGWINCH);
	for (unsigned i = 0; i < NR_ENDING; i++) {
		(void)sigaction(ending[i], &action, NULL);
		(void)sigaddset(&blocked, ending[i]);
	}
	(void)sigprocmask(SIG_BLOCK, &blocked, &view->waiting);
	(void)sigdelset(&view->waiting, SIGWINCH);
	for (unsigned i = 0; i < NR_ENDING; i++)
		(void)sigdelset(&view->waiting, ending[i]);
}

/*
 * End this process by the signal that has arrived. The caller has restored the
 * terminal.
 */
static void end_by(int sig, const sigset_t *mask)
{
	(void)signal(sig, SIG_DFL);
	(void)raise(sig);
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
}

/* Display */

static const char *name_of_sort(enum uaio_top_sort sort)
{
	static const char *const names[UAIO_TOP_NR_SORTS] = {
		[UAIO_TOP_BY_RATE] = "requests/s",
		[UAIO_TOP_BY_P99] = "p99",
		[UAIO_TOP_BY_FLIGHT] = "in flight",
		[UAIO_TOP_BY_THREADS] = "threads",
		[UAIO_TOP_BY_PID] = "process id",
		[UAIO_TOP_BY_NAME] = "name",
	};

	return names[sort];
}

static void put_line(int y, attr_t attributes, const char *text)
{
	(void)attrset((int)attributes);
	(void)mvaddnstr(y, 0, text, COLS);
	(void)attrset(A_NORMAL);
}

static unsigned room_for_rows(void)
{
	return LINES > FIRST_ROW + 1 ? (unsigned)(LINES - FIRST_ROW - 1) : 0;
}

static void draw(struct view *view)
{
	const struct uaio_top *top = view->top;
	const unsigned room = room_for_rows(), nr = uaio_top_nr_lines(top);
	char head[UAIO_TOP_LINE], line[UAIO_TOP_LINE];

	if (view->first + room > nr)
		view->first = nr > room ? nr - room : 0;
	(void)erase();
	uaio_top_head(top, head);
	put_line(0, A_BOLD, head);
	put_line(1, A_REVERSE, uaio_top_columns(top));
	for (unsigned i = 0; i < room && view->first + i < nr; i++) {
		uaio_top_line(top, view->first + i, line);
		put_line(FIRST_ROW + (int)i, A_NORMAL, line);
	}
	(void)snprintf(
		head, sizeof(head),
		"q quit  v by %s  s sort: %s  space %s  +/- every %.1f s",
		uaio_top_views[top->view], name_of_sort(top->sort),
		view->is_paused ? "go on (paused)" : "pause", top->delay_s);
	put_line(LINES - 1, A_REVERSE, head);
	(void)refresh();
}

/* Actions */

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static double clamp(double value, double least, double most)
{
	return value < least ? least : value > most ? most : value;
}

static void press(struct view *view, int key)
{
	struct uaio_top *top = view->top;

	switch (key) {
	case 'q': view->is_over = true; break;
	case 's':
		top->sort = (top->sort + 1) % UAIO_TOP_NR_SORTS;
		uaio_top_sort(top);
		break;
	case 'v':
		top->view = (top->view + 1) % UAIO_TOP_NR_VIEWS;
		view->first = 0;
		view->is_new = true;
		break;
	case ' ': view->is_paused = !view->is_paused; break;
	case '+': top->delay_s = clamp(2 * top->delay_s, 0.1, 3600); break;
	case '-': top->delay_s = clamp(top->delay_s / 2, 0.1, 3600); break;
	case KEY_DOWN: view->first++; break;
	case KEY_UP: view->first -= view->first > 0; break;
	default: break;
	}
}

static uint64_t due_ns(const struct view *view)
{
	return view->top->now_ns + (uint64_t)(view->top->delay_s * NS_PER_S);
}

/* Return: how long to wait, in ns; below 0: without a limit. */
static int64_t wait_ns(const struct view *view)
{
	const uint64_t now = now_ns(), due = due_ns(view);
	const int patience_ms = uaio_top_patience(view->top);
	int64_t left = view->is_paused ? -1
		       : due > now     ? (int64_t)(due - now)
				       : 0;

	if (patience_ms >= 0 &&
	    (left < 0 || left > patience_ms * INT64_C(1000000)))
		left = patience_ms * INT64_C(1000000);
	return left;
}

/*
 * Wait in ppoll() once.
 * Return: true if a key was pressed, a signal arrived, or the terminal is gone; false
 * after the time of wait_ns().
 */
static bool wait_once(struct view *view)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	const int64_t left = wait_ns(view);
	const struct timespec timeout = {
		.tv_sec = (time_t)(left / NS_PER_S),
		.tv_nsec = (long)(left % NS_PER_S),
	};
	int ret = ppoll(&input, 1, left < 0 ? NULL : &timeout, &view->waiting);

	if (ret > 0 && input.revents & (POLLHUP | POLLERR | POLLNVAL))
		view->is_over = true;
	return ret;
}

/*
 * Wait until the next sample is due, a key is pressed, or a signal arrives. Meanwhile
 * count the records that traced processes write.
 */
static void wait_for_something(struct view *view)
{
	bool is_something;

	do {
		is_something = wait_once(view);
		uaio_top_count(view->top);
	} while (!is_something && (view->is_paused || now_ns() < due_ns(view)));
}

/* Return: 0, or -ENOMEM. */
static int sample_if_due(struct view *view)
{
	if (view->is_new) {
		/*
		 * A key has changed the table: end the interval now. This extra sample
		 * is not one of the tables that the user has asked for, so nr_samples
		 * does not count it.
		 */
		view->is_new = false;
		return uaio_top_sample(view->top);
	}
	if (view->is_paused || now_ns() < due_ns(view))
		return 0;
	view->nr_samples++;
	if (view->nr_samples == view->top->nr_tables)
		view->is_over = true;
	return uaio_top_sample(view->top);
}

/* Return: 0, or -ENOMEM. */
static int go_on(struct view *view)
{
	int error = 0, key;

	while (!error && !view->is_over && !load_relaxed(&ended_by)) {
		draw(view);
		wait_for_something(view);
		/* getch() also adapts to a new size of the terminal. */
		while ((key = getch()) != ERR)
			press(view, key);
		error = sample_if_due(view);
	}
	return error;
}

static int show(struct uaio_top *top)
{
	struct view view = { .top = top };
	SCREEN *screen;
	int error;

	catch_signals(&view);
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return uaio_diag(EXIT_REFUSED,
				 "top: TERM does not name a terminal that is "
				 "known here: use uaio top -b");
	(void)cbreak();
	(void)noecho();
	(void)keypad(stdscr, true);
	(void)nodelay(stdscr, true);
	(void)curs_set(0);
	error = go_on(&view);
	(void)endwin();
	delscreen(screen);
	if (load_relaxed(&ended_by))
		end_by(load_relaxed(&ended_by), &view.waiting);
	return error ? uaio_diag(EXIT_REFUSED, "%s", strerror(-error))
		     : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct uaio_top top;
	int status = uaio_top_options(argc, argv, &top);

	if (status < 0) {
		status = uaio_top_begin(&top);
		if (!status)
			status = show(&top);
	}
	uaio_top_free(&top);
	return status;
}
