/* SPDX-License-Identifier: MIT */
/*
 * Finds the function, file and line of each frame of a report's stacks. If the program
 * has a sanitizer, the report already has the text of the sanitizer's symbolizer.
 * Otherwise this module runs addr2line, if it is installed.
 *
 * Tested by test/run/check.py.
 */
#include "tool/check/check.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loader.h"
#include "tool/common/target.h"

enum {
	FRAMES_MAX = UAIO_CHECK_NR_STACKS * UAIO_CHECK_FRAMES_MAX,
	OWN_ARGUMENTS =
		7, /* number of addr2line's arguments before the addresses */
	ADDRESS_MAX = 19, /* room for "0x", 16 digits and NUL */
	OUTPUT_MAX = 1 << 20,
	PATIENCE_MS = 60000,
};

static void add_line(struct uaio_check_frame *frame, const char *function,
		     size_t function_len, const char *place)
{
	struct uaio_check_line *line;
	char *end;

	frame->lines = uaio_check_memory(realloc(
		frame->lines, (frame->nr_lines + 1) * sizeof(*frame->lines)));
	line = &frame->lines[frame->nr_lines++];
	*line = (struct uaio_check_line){
		.function = uaio_check_memory(strndup(function, function_len)),
	};
	/*
	 * "?" means unknown. A sanitizer that does not know the file prints the module
	 * in parentheses instead.
	 */
	if (!place || strchr("?(", *place))
		return;
	line->file = uaio_check_memory(strdup(place));
	end = strstr(line->file, " (discriminator ");
	if (end)
		*end = '\0';
	/*
	 * Remove ":LINE" or ":LINE:COLUMN" from the end; the last number removed is the
	 * line.
	 */
	while ((end = strrchr(line->file, ':')) &&
	       (isdigit((unsigned char)end[1]) || end[1] == '?')) {
		line->line = (unsigned)strtoul(end + 1, NULL, 10);
		*end = '\0';
	}
}

/* Parse what a sanitizer's symbolizer printed: "in FUNCTION FILE:LINE:COLUMN". */
static void take_text(struct uaio_check_frame *frame)
{
	const char *function = frame->text, *place;

	if (!strncmp(function, "in ", 3))
		function += 3;
	place = strrchr(function, ' ');
	add_line(frame, function,
		 place ? (size_t)(place - function) : strlen(function),
		 place ? place + 1 : NULL);
}

/*
 * Return: whether a module has fixed addresses (ET_EXEC), so that an address in its
 * file is also its address in memory.
 */
static bool is_at_fixed_address(const char *module)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf64_Ehdr header;
	bool is;

	if (fd < 0)
		return false;
	/* e_type is at the same offset in 32-bit and 64-bit files. */
	is = pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
	     !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
	     header.e_type == ET_EXEC;
	(void)close(fd);
	return is;
}

/*
 * Return: all output up to end of file, which the caller frees; NULL on an error.
 */
static char *read_all(int fd)
{
	char *text = uaio_check_memory(malloc(OUTPUT_MAX));
	struct pollfd waits = { .fd = fd, .events = POLLIN };
	size_t nr = 0;

	while (nr < OUTPUT_MAX - 1 && poll(&waits, 1, PATIENCE_MS) == 1) {
		ssize_t r = read(fd, text + nr, OUTPUT_MAX - 1 - nr);

		if (r <= 0) {
			text[nr] = '\0';
			return text;
		}
		nr += (size_t)r;
	}
	free(text);
	return NULL;
}

static pid_t start(const char *path, char **args, int to)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none;
	pid_t pid;
	int error;

	(void)sigemptyset(&none);
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawn_file_actions_addopen(&files, STDIN_FILENO,
					       "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&files, to, STDOUT_FILENO);
	(void)posix_spawn_file_actions_addopen(&files, STDERR_FILENO,
					       "/dev/null", O_WRONLY, 0);
	(void)posix_spawnattr_init(&attributes);
	(void)posix_spawnattr_setsigmask(&attributes, &none);
	(void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	error = posix_spawn(&pid, path, &files, &attributes, args, environ);
	(void)posix_spawnattr_destroy(&attributes);
	(void)posix_spawn_file_actions_destroy(&files);
	return error ? -1 : pid;
}

/* Return: what a command prints, which the caller frees; NULL on an error. */
static char *output_of(const char *path, char **args)
{
	int ends[2], status;
	char *text = NULL;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return NULL;
	pid = start(path, args, ends[1]);
	(void)close(ends[1]);
	if (pid > 0) {
		text = read_all(ends[0]);
		if (!text)
			(void)kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	(void)close(ends[0]);
	return text;
}

/*
 * addr2line's answer has one line with each address. Because of inlining, several
 * functions may contain the address. For each of them, innermost first, two lines
 * follow: the function's name, and FILE:LINE.
 */
static void take_answer(struct uaio_check_frame **frames, unsigned nr,
			char *answer)
{
	struct uaio_check_frame *frame = NULL;
	char *rest = answer, *line, *place;
	unsigned at = 0;

	while ((line = strsep(&rest, "\n"))) {
		if (!strncmp(line, "0x", 2)) {
			frame = at < nr ? frames[at++] : NULL;
			continue;
		}
		place = strsep(&rest, "\n");
		if (frame && place && strcmp(line, "??"))
			add_line(frame, line, strlen(line), place);
	}
}

static const char *addr2line(void)
{
	static char path[PATH_MAX];
	static bool is_looked_for, is_there;

	if (!is_looked_for)
		is_there = uaio_search("addr2line", path) == 0;
	is_looked_for = true;
	return is_there ? path : NULL;
}

/* Find the functions, files and lines of some frames of one module. */
static void ask(const char *module, struct uaio_check_frame **frames,
		unsigned nr)
{
	static char addresses[FRAMES_MAX][ADDRESS_MAX];
	char *args[OWN_ARGUMENTS + FRAMES_MAX + 1] = {
		"addr2line", "-a", "-f", "-C", "-i", "-e", (char *)module,
	};
	bool is_fixed = is_at_fixed_address(module);
	char *answer;

	for (unsigned i = 0; i < nr; i++) {
		uint64_t at = is_fixed ? frames[i]->pc : frames[i]->offset;

		/*
		 * `at` is a return address, which may belong to the next line. Look up
		 * the byte before, which belongs to the call.
		 */
		(void)snprintf(addresses[i], ADDRESS_MAX, "0x%" PRIx64, at - 1);
		args[OWN_ARGUMENTS + i] = addresses[i];
	}
	answer = output_of(addr2line(), args);
	if (answer)
		take_answer(frames, nr, answer);
	free(answer);
}

static bool is_readable(const char *module)
{
	struct stat st;

	return module && *module == '/' && !stat(module, &st) &&
	       S_ISREG(st.st_mode);
}

/* Return: whether the frame is a function of the sanitizer, such as its free(). */
static bool is_of_sanitizer(const struct uaio_check_frame *frame)
{
	static const char *const beginnings[] = {
		"__sanitizer::", "__interceptor_", "___interceptor_",
		"__asan::",      "__msan::",       "__tsan::",
		"libasan.",      "libtsan.",       "libclang_rt.",
	};
	const char *function = frame->nr_lines ? frame->lines[0].function
			       : frame->symbol ? frame->symbol
					       : "";
	const char *module = frame->module ? uaio_base_name(frame->module) : "";

	for (unsigned i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]);
	     i++)
		if (uaio_has_prefix(function, beginnings[i]) ||
		    uaio_has_prefix(module, beginnings[i]))
			return true;
	return false;
}

static void drop_sanitizer(struct uaio_check_stack *stack)
{
	unsigned nr = 0;

	while (nr < stack->nr && is_of_sanitizer(&stack->frames[nr]))
		nr++;
	if (!nr || nr == stack->nr)
		return;
	for (unsigned i = 0; i < nr; i++)
		uaio_check_frame_free(&stack->frames[i]);
	stack->nr -= nr;
	memmove(stack->frames, stack->frames + nr,
		stack->nr * sizeof(*stack->frames));
}

void uaio_check_symbolize(struct uaio_report *report)
{
	struct uaio_check_frame *left[FRAMES_MAX], *same[FRAMES_MAX];
	unsigned nr_left = 0;

	for (unsigned i = 0; i < UAIO_CHECK_NR_STACKS; i++)
		for (unsigned nr = 0; nr < report->stacks[i].nr; nr++) {
			struct uaio_check_frame *frame =
				&report->stacks[i].frames[nr];

			if (frame->text)
				take_text(frame);
			else if (addr2line() && is_readable(frame->module))
				left[nr_left++] = frame;
		}
	while (nr_left) {
		const char *module = left[0]->module;
		unsigned nr_same = 0, nr_others = 0;

		for (unsigned i = 0; i < nr_left; i++)
			if (!strcmp(left[i]->module, module))
				same[nr_same++] = left[i];
			else
				left[nr_others++] = left[i];
		ask(module, same, nr_same);
		nr_left = nr_others;
	}
	for (unsigned i = 0; i < UAIO_CHECK_NR_STACKS; i++)
		drop_sanitizer(&report->stacks[i]);
}
