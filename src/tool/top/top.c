/* SPDX-License-Identifier: MIT */
#include "tool/top/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool/common/library.h"
#include "tool/tool.h"

static void print_table(const struct uaio_top *top)
{
	char head[UAIO_TOP_LINE], line[UAIO_TOP_LINE];

	uaio_top_head(top, head);
	printf("%s\n%s\n", head, uaio_top_columns(top));
	for (unsigned i = 0; i < uaio_top_nr_lines(top); i++) {
		uaio_top_line(top, i, line);
		puts(line);
	}
	puts("");
}

static void sleep_for(double seconds)
{
	struct timespec left = { .tv_sec = (time_t)seconds };

	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

/*
 * Wait until the interval ends. Meanwhile count the records that traced processes
 * write.
 */
static void wait_for_end(struct uaio_top *top)
{
	const int patience_ms = uaio_top_patience(top);
	struct timespec now;
	double left;

	for (;;) {
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		left = (double)top->now_ns / 1e9 + top->delay_s -
		       (double)now.tv_sec - (double)now.tv_nsec / 1e9;
		if (left <= 0)
			return;
		if (patience_ms >= 0 && left > patience_ms / 1000.0)
			left = patience_ms / 1000.0;
		sleep_for(left);
		uaio_top_count(top);
	}
}

/*
 * Each table shows what happened in an interval. So wait for the end of an interval
 * before each table.
 */
static int print_tables(struct uaio_top *top)
{
	int status = uaio_top_begin(top);

	for (unsigned i = 0; !status && (!top->nr_tables || i < top->nr_tables);
	     i++) {
		wait_for_end(top);
		if (uaio_top_sample(top) < 0)
			return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
		print_table(top);
		if (fflush(stdout)) {
			/* Otherwise main() would print a second message. */
			clearerr(stdout);
			return uaio_diag(EXIT_REFUSED, "top: %s",
					 strerror(errno));
		}
	}
	return status;
}

/* Execute uaio-top. */
static int show(char **argv)
{
	char path[PATH_MAX];

	if (!uaio_library_find_program("uaio-top", path))
		return uaio_diag(
			EXIT_REFUSED,
			"top: its live view is not installed: use "
			"uaio top -b, or install the package uaio-top, "
			"or libncurses-dev and build uaio again");
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return uaio_diag(EXIT_REFUSED, "top: the standard input and "
					       "output are no terminal: use "
					       "uaio top -b");
	(void)execv(path, argv);
	return uaio_diag(EXIT_REFUSED, "top: %s: %s", path, strerror(errno));
}

int uaio_top_main(int argc, char **argv)
{
	struct uaio_top top;
	int status = uaio_top_options(argc, argv, &top);

	if (status < 0)
		status = top.is_batch ? print_tables(&top) : show(argv);
	uaio_top_free(&top);
	return status;
}
