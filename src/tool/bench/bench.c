/* SPDX-License-Identifier: MIT */
/*
 * uaio bench: executes the benchmark's script, and passes it the paths of `uaio` and of
 * the benchmark's programs. The script interprets the command line.
 *
 * Tested by test/run/bench.py.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/common/library.h"
#include "tool/common/target.h"
#include "tool/tool.h"

enum { NR_OWN_ARGUMENTS = 7 };

struct bench {
	char script[PATH_MAX];
	char uaio[PATH_MAX];
	char helpers[PATH_MAX];
};

static void print_help(void)
{
	puts("usage: uaio bench [option...] [row...]\n"
	     "\n"
	     "Measures the library beside kernel AIO and io_uring. Without a "
	     "row it measures\n"
	     "all of them, which takes about an hour. uaio-bench(1) describes "
	     "the rows.\n"
	     "\n"
	     "  --quick      short runs, too few for a verdict\n"
	     "  --pairs N    measured rounds\n"
	     "  --json FILE  write the results, one JSON object a line\n"
	     "  --report DIR write them as a page with plots, DIR/index.html\n"
	     "  --dir DIR    where the files on disk are made\n"
	     "  -h, --help   show this");
}

/*
 * Find the script and the programs, in the build tree or else in the installed tree.
 */
static int find(struct bench *bench)
{
	char own[PATH_MAX], built[PATH_MAX];

	if (!uaio_own_directory(own) ||
	    !uaio_locate(own, "uaio", bench->uaio) ||
	    !uaio_locate(own, "bench/scripts/run.py", built) ||
	    !uaio_locate(own, UAIO_BENCH_SCRIPTS_FROM_BINDIR "/run.py",
			 bench->script) ||
	    !uaio_locate(own, UAIO_BENCH_HELPERS_FROM_BINDIR, bench->helpers))
		return uaio_diag(EXIT_REFUSED,
				 "bench: cannot tell where uaio is");
	if (!access(built, R_OK)) {
		strcpy(bench->script, built);
		(void)uaio_locate(own, "bench", bench->helpers);
		return 0;
	}
	if (!access(bench->script, R_OK))
		return 0;
	return uaio_diag(EXIT_REFUSED,
			 "bench: %s is not there: packages and make leave the "
			 "benchmark out; in the source of uaio run make bench, "
			 "or for a part of it ninja -C build "
			 "benchmark-programs, and then build/uaio bench",
			 bench->script);
}

static int become(char *python, struct bench *bench, int argc, char **argv)
{
	char **args = calloc(NR_OWN_ARGUMENTS + (size_t)argc, sizeof(*args));
	int nr = 0;

	if (!args)
		return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
	args[nr++] = python;
	/* -B: Python must not write bytecode files beside the scripts */
	args[nr++] = "-B";
	args[nr++] = bench->script;
	args[nr++] = "--uaio";
	args[nr++] = bench->uaio;
	args[nr++] = "--helpers";
	args[nr++] = bench->helpers;
	for (int i = 1; i < argc; i++)
		args[nr++] = argv[i];
	execv(python, args);
	return uaio_search_diag(python, -errno);
}

int uaio_bench_main(int argc, char **argv)
{
	char python[PATH_MAX];
	struct bench bench;
	int status;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
			print_help();
			return EXIT_SUCCESS;
		}
	}
	status = find(&bench);
	if (!status)
		status = uaio_search_command("python3", python);
	return status ? status : become(python, &bench, argc, argv);
}
