/* SPDX-License-Identifier: MIT */
/*
 * uaio run: sets the environment so that the loader preloads the library, and executes
 * the command in place of itself
 *
 * The command replaces `uaio run` in its process, and only environment variables remain
 * of the tool. So the command has the process id that the caller knows, and its own
 * exit status, signals and job control.
 *
 * Tested by test/run/options.py and status.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/calls.h"
#include "options/options.h"
#include "options/variables.h"
#include "tool/common/image.h"
#include "tool/common/library.h"
#include "tool/common/children.h"
#include "tool/common/target.h"
#include "tool/common/trapped.h"
#include "tool/run/suggest.h"
#include "tool/tool.h"

/*
 * What uaio_flags_next() returns for the first long option. For a short option it
 * returns a character, which is below 256.
 */
enum { FIRST_LONG = 256 };

/*
 * The value of each option. A flag takes precedence over the environment variable.
 */
struct settings {
	const char *texts[UAIO_NR_OPTIONS]; /* borrows; NULL: not given */
	uint64_t values[UAIO_NR_OPTIONS];
	/*
	 * The last flag before the command, if its value is optional and not given;
	 * else NULL. If the command is not found, a message asks whether it was meant
	 * as this value.
	 */
	const struct uaio_option *before;
};

/* Help */

static void print_option(const struct uaio_option *opt)
{
	char flag[32];

	snprintf(flag, sizeof(flag), "--%s%s%s", opt->name,
		 opt->placeholder && !opt->bare ? " " : "",
		 opt->placeholder ? opt->placeholder : "");
	printf("  %-17s  %-17s  %s\n", flag, opt->variable, opt->help);
}

static void print_help(void)
{
	puts("usage: uaio run [option...] [--] command [argument...]\n"
	     "\n"
	     "Starts the command with kernel AIO and POSIX AIO by the library, "
	     "and io_uring\n"
	     "where the kernel refuses it.\n");
	for (int i = 0; i < UAIO_NR_OPTIONS; i++)
		print_option(&uaio_options[i]);
	puts("  -h, --help                            show this\n"
	     "  -V, --version                         show the version\n"
	     "\n"
	     "An option without a value is a switch: its name turns it on; "
	     "=yes, =on and\n"
	     "=1 behind the name do so too, =no, =off and =0 turn it off. "
	     "Each variable sets\n"
	     "the same as its option, where that is not given.");
}

/* Options */

static int diag_value(int id, const char *given_as, const char *text)
{
	char line[UAIO_OPTION_COMPLAINT_MAX];

	uaio_option_complaint(&uaio_options[id], given_as, text, line,
			      sizeof(line));
	fprintf(stderr, "%s\n", line);
	return EXIT_REFUSED;
}

static int diag_forgotten(int id, const char *word)
{
	const char *name = uaio_options[id].name;

	return uaio_diag(EXIT_REFUSED,
			 "--%s: expected a value before '%s' (if that is the "
			 "value: --%s=%s)",
			 name, word, name, word);
}

/*
 * Return: whether the user has probably forgotten the flag's value. Then getopt() took
 * the next word of the command line as the value, and that word begins with "--". If
 * the tool accepted this value, it would run the word after it as the command.
 */
static bool is_forgotten(const char *text, const char *word)
{
	return text == word && !strncmp(text, "--", 2);
}

/*
 * Return: whether to add the faults in `text` to those given before: the option is
 * --fault, and `text` is valid and not empty.
 */
static bool adds_faults(const struct settings *settings, int id,
			const char *text)
{
	uint64_t value = 0;

	return uaio_options[id].kind == UAIO_OPTION_FAULTS &&
	       settings->values[id] &&
	       !uaio_option_parse(&uaio_options[id], text, &value) && value;
}

/* Return: the two texts with a blank in between. */
static const char *join(const char *before, const char *text)
{
	char *both;

	/* Nothing frees this text before the exec. */
	return asprintf(&both, "%s %s", before, text) < 0 ? text : both;
}

static int set_from_flag(struct settings *settings, int id, const char *text)
{
	char flag[32];

	if (!text)
		text = uaio_options[id].bare;
	/*
	 * If `text` is invalid, do not join it to the faults given before, so that the
	 * message shows only `text`.
	 */
	if (adds_faults(settings, id, text))
		text = join(settings->texts[id], text);
	settings->texts[id] = text;
	if (uaio_option_parse(&uaio_options[id], text, &settings->values[id])) {
		snprintf(flag, sizeof(flag), "--%s", uaio_options[id].name);
		return diag_value(id, flag, text);
	}
	return 0;
}

/*
 * Read the environment variables of options that no flag has set. For an invalid value,
 * the library would only print a message and use the default. The tool refuses it.
 */
static int set_from_environment(struct settings *settings)
{
	for (int i = 0; i < UAIO_NR_OPTIONS; i++) {
		const char *variable = uaio_options[i].variable;
		const char *text = getenv(variable);

		if (settings->texts[i] || !text)
			continue;
		settings->texts[i] = text;
		if (uaio_option_parse(&uaio_options[i], text,
				      &settings->values[i]))
			return diag_value(i, variable, text);
	}
	return 0;
}

/*
 * Report environment variables whose names look like options, but are none. Note the
 * names in another variable, so that the processes of the command do not report them
 * again.
 * Return: 0, or -ENOMEM if there is no memory for the other variable.
 */
static int check_names(void)
{
	const char *ignored = getenv(UAIO_IGNORED_VARIABLE);
	char line[UAIO_VARIABLE_COMPLAINT_MAX], *told, *end;
	size_t room = ignored ? strlen(ignored) + 1 : 1;
	int r;

	for (char **entry = environ; *entry; entry++)
		room += uaio_variable_unknown(*entry, ignored) + 1;
	told = malloc(room);
	if (!told)
		return -ENOMEM;
	end = stpcpy(told, ignored ? ignored : "");
	for (char **entry = environ; *entry; entry++) {
		size_t name = uaio_variable_unknown(*entry, ignored);

		if (!name)
			continue;
		uaio_variable_complaint(*entry, name, line);
		fprintf(stderr, "%s\n", line);
		if (end > told)
			*end++ = ' ';
		end = mempcpy(end, *entry, name);
	}
	*end = '\0';
	r = *told ? setenv(UAIO_IGNORED_VARIABLE, told, 1) : 0;
	free(told);
	return r < 0 ? -errno : 0;
}

static void fill_flags(struct option flags[UAIO_NR_OPTIONS + 3])
{
	for (int i = 0; i < UAIO_NR_OPTIONS; i++)
		flags[i] = (struct option){
			.name = uaio_options[i].name,
			/*
			 * An optional value must follow '=', because the next word may
			 * be the command.
			 */
			.has_arg = uaio_options[i].bare ? optional_argument
							: required_argument,
			.val = FIRST_LONG + i,
		};
	flags[UAIO_NR_OPTIONS] =
		(struct option){ "help", no_argument, NULL, 'h' };
	flags[UAIO_NR_OPTIONS + 1] =
		(struct option){ "version", no_argument, NULL, 'V' };
	flags[UAIO_NR_OPTIONS + 2] = (struct option){ 0 };
}

static int diag_v(void)
{
	return uaio_diag(EXIT_REFUSED,
			 "run: -v: no such option; --verbose says "
			 "what is done, -V shows the version");
}

/*
 * Read the flags. Do what --help and --version ask for.
 *
 * Return: 0: the command is at argv[optind]. -1: there is nothing to run, and
 * *ret_status is the exit status.
 */
static int read_flags(int argc, char **argv, struct settings *settings,
		      int *ret_status)
{
	struct option flags[UAIO_NR_OPTIONS + 3];
	int c, id;

	fill_flags(flags);
	*ret_status = EXIT_SUCCESS;
	while ((c = uaio_flags_next(argc, argv, "+hVv", flags)) != -1) {
		switch (c) {
		case 'h': print_help(); return -1;
		case 'V': uaio_version_print(); return -1;
		case 'v': *ret_status = diag_v(); return -1;
		case '?': *ret_status = EXIT_REFUSED; return -1;
		default:
			id = c - FIRST_LONG;
			*ret_status =
				is_forgotten(optarg, argv[optind - 1])
					? diag_forgotten(id, optarg)
					: set_from_flag(settings, id, optarg);
			if (*ret_status)
				return -1;
			settings->before = optarg ? NULL : &uaio_options[id];
		}
	}
	if (optind && !strcmp(argv[optind - 1], "--"))
		settings->before = NULL;
	if (optind < argc)
		return 0;
	*ret_status = uaio_diag(EXIT_REFUSED,
				"run: which command? See uaio run --help");
	return -1;
}

/* Running */

/* Return: 0 if the file can be written; else -errno. A missing file is created. */
static int try_file(const char *path)
{
	struct stat st;
	int fd;

	/*
	 * Do not open a FIFO: that waits for a reader, and the reader would see the end
	 * of the file.
	 */
	if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode))
		return eaccess(path, W_OK) < 0 ? -errno : 0;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/*
 * Make the path of an option's file absolute, because the command and its children may
 * change their working directory. Check that the file can be written.
 */
static int settle_file(struct settings *settings, int id)
{
	static char paths[UAIO_NR_OPTIONS][UAIO_OPTION_PATH_MAX];
	char path[UAIO_OPTION_PATH_MAX];
	const char *text = settings->texts[id];
	bool is_variable = text == getenv(uaio_options[id].variable);
	int r;

	uaio_option_absolute(&uaio_options[id], text, paths[id]);
	if (!strcmp(paths[id], "-"))
		return 0;
	if (!paths[id][0] || uaio_option_path(paths[id], getpid(), path) < 0)
		return uaio_diag(EXIT_REFUSED, "--%s: the path is too long",
				 uaio_options[id].name);
	settings->texts[id] = paths[id];
	r = try_file(path);
	if (r < 0)
		return uaio_diag(EXIT_REFUSED, "%s%s=%s: %s",
				 is_variable ? "" : "--",
				 is_variable ? uaio_options[id].variable
					     : uaio_options[id].name,
				 text, strerror(-r));
	return 0;
}

static int settle_files(struct settings *settings)
{
	int status = 0;

	for (int i = 0; i < UAIO_NR_OPTIONS && !status; i++) {
		if (uaio_options[i].kind == UAIO_OPTION_FILE &&
		    settings->values[i])
			status = settle_file(settings, i);
	}
	return status;
}

static bool has_cpu(const struct uaio_cpus *cpus, size_t cpu)
{
	const size_t bits = 8 * sizeof(cpus->words[0]);

	return cpus->words[cpu / bits] >> cpu % bits & 1;
}

/*
 * Refuse --cpus if this process may use none of the given CPUs: the command inherits
 * this process's CPU mask. If this process may use only some of them, report the first
 * one that it may not use.
 */
static int check_cpus(const struct settings *settings)
{
	const char *name = uaio_options[UAIO_OPTION_CPUS].name;
	const char *text = settings->texts[UAIO_OPTION_CPUS];
	struct uaio_cpus asked, used, allowed = { { 0 } };

	if (!text || uaio_option_cpus(text, &asked) < 0 ||
	    sched_getaffinity(0, sizeof(allowed),
			      (cpu_set_t *)(void *)&allowed) < 0)
		return 0;
	used = asked;
	if (!uaio_cpus_cut(&used, &allowed))
		return uaio_diag(EXIT_REFUSED,
				 "--%s=%s: the command may use none of these",
				 name, text);
	for (size_t cpu = 0; cpu < UAIO_CPUS_MAX; cpu++)
		if (has_cpu(&asked, cpu) && !has_cpu(&used, cpu))
			return uaio_diag(0,
					 "--%s=%s: the command may not use "
					 "processor %zu and is run without it",
					 name, text, cpu);
	return 0;
}

static int check_calls(void)
{
	const char *word = getenv(UAIO_CALLS_VARIABLE);
	char line[UAIO_OPTION_COMPLAINT_MAX];

	if (!word || uaio_calls_word_is_valid(word))
		return 0;
	uaio_option_complaint_of(UAIO_CALLS_VARIABLE, word,
				 UAIO_OPTION_CALLS_EXPECTED, line,
				 sizeof(line));
	fprintf(stderr, "%s\n", line);
	return EXIT_REFUSED;
}

static int check_fixed(const struct settings *settings)
{
	char line[UAIO_OPTION_COMPLAINT_MAX];

	if (uaio_option_fixed_fit(settings->values[UAIO_OPTION_WORKERS],
				  settings->values[UAIO_OPTION_FIXED]))
		return 0;
	uaio_option_complaint_of("--fixed", settings->texts[UAIO_OPTION_FIXED],
				 UAIO_OPTION_FIXED_EXPECTED, line,
				 sizeof(line));
	fprintf(stderr, "%s\n", line);
	return EXIT_REFUSED;
}

/*
 * Tell the library which process is the command: this one, as an exec keeps the process
 * id.
 */
static int set_pid(void)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)getpid());
	return setenv(UAIO_RUN_PID_VARIABLE, text, 1) < 0 ? -errno : 0;
}

static int set_environment(const struct settings *settings, const char *dir)
{
	int r = uaio_preload_set(dir);

	if (!r)
		r = check_names();
	if (!r)
		r = set_pid();
	if (!r)
		r = uaio_sandbox_set_variable();
	for (int i = 0; i < UAIO_NR_OPTIONS && !r; i++) {
		if (settings->texts[i] &&
		    setenv(uaio_options[i].variable, settings->texts[i], 1))
			r = -errno;
	}
	return r ? uaio_diag(EXIT_REFUSED, "%s", strerror(-r)) : 0;
}

#if defined(__x86_64__)

/*
 * Run a script under the trap as the kernel runs it: execute its interpreter, and pass
 * the script's path as an argument.
 */
static int run_script(const struct uaio_target *target, const char *path,
		      char **argv)
{
	char *front[3] = { (char *)target->file }, **args;
	size_t nr_front = 1, nr = 0;

	if (target->word[0])
		front[nr_front++] = (char *)target->word;
	front[nr_front++] = (char *)path;
	while (argv[nr])
		nr++;
	/*
	 * `front` takes the place of argv[0]. nr counts argv[0], but not the final
	 * NULL. So nr pointers follow argv[0]: the other arguments and the NULL.
	 */
	args = malloc((nr_front + nr) * sizeof(*args));
	if (!args)
		return -ENOMEM;
	memcpy(args, front, nr_front * sizeof(*args));
	memcpy(args + nr_front, argv + 1, nr * sizeof(*args));
	return uaio_trapped_exec(target->file, args);
}

static int run_trapped(const struct uaio_target *target, const char *path,
		       char **argv)
{
	int r = target->nr_scripts ? run_script(target, path, argv)
				   : uaio_trapped_exec(path, argv);

	return uaio_search_diag(argv[0], r);
}

#else

static int run_trapped(const struct uaio_target *target, const char *path,
		       char **argv)
{
	(void)target;
	(void)argv;
	return uaio_diag(EXIT_REFUSED,
			 "%s: --trap is for x86-64: start it without --trap, "
			 "and use a dynamic build of it",
			 path);
}

#endif

/*
 * Examine the files of the program and its libraries. Use the trap if these files have
 * system calls that a preloaded library does not serve, and if the trap works here.
 */
static void choose_trap(const char *dir, struct uaio_target *target)
{
	static struct uaio_uses uses;

	/*
	 * Choose no trap for a script that another script interprets, because the trap
	 * does not support this.
	 *
	 * First set the variables that make the loader find the library in place of
	 * libaio: uaio_uses_read() runs the loader, and the program may need libaio.
	 */
	if (target->needs_trap || target->nr_scripts > 1 ||
	    uaio_trapped_try() || uaio_preload_set(dir))
		return;
	target->needs_trap = !uaio_uses_read(target->file, true, &uses) &&
			     uaio_uses_want_trap(&uses);
}

/* If nobody reads the message, run the command nevertheless: ignore SIGPIPE. */
static void say_what_runs(const char *path, const char *dir)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction old;

	sigaction(SIGPIPE, &ignore, &old);
	fprintf(stderr,
		"uaio: run: %s with %s/" UAIO_LIBRARY " in front of "
		"libaio.so.1, libaio.so.1t64 and syscall(2)\n",
		path, dir);
	sigaction(SIGPIPE, &old, NULL);
}

int uaio_run_main(int argc, char **argv)
{
	static struct uaio_target target;
	struct settings settings = { 0 };
	char path[PATH_MAX], dir[PATH_MAX], hint[UAIO_SUGGESTION_MAX];
	int status;

	if (read_flags(argc, argv, &settings, &status) < 0)
		return status;
	argv += optind;

	status = set_from_environment(&settings);
	if (!status)
		status = check_calls();
	if (!status)
		status = check_cpus(&settings);
	if (!status)
		status = check_fixed(&settings);
	if (!status)
		status = settle_files(&settings);
	if (!status)
		status = uaio_library_find(dir);
	if (!status)
		status = uaio_library_check(dir);
	if (!status) {
		uaio_suggest(argv[0], settings.before, hint);
		status = uaio_search_hinted(argv[0], hint, path);
	}
	if (!status)
		status = uaio_target_check(
			path,
			(enum uaio_trap_when)settings.values[UAIO_OPTION_TRAP],
			&target);
	if (!status)
		status = set_environment(&settings, dir);
	if (status)
		return status;
	if (settings.values[UAIO_OPTION_TRAP] == UAIO_TRAP_AUTO)
		choose_trap(dir, &target);

	if (settings.values[UAIO_OPTION_VERBOSE])
		say_what_runs(path, dir);
	if (target.needs_trap)
		return run_trapped(&target, path, argv);
	/* execvp() also runs scripts without #!, which execv() does not */
	execvp(path, argv);
	return uaio_search_diag(argv[0], -errno);
}
