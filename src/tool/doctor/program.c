/* SPDX-License-Identifier: MIT */
/*
 * Examines a command: whether the library can be loaded into it, which asynchronous
 * interfaces it uses, and how uaio serves each of them
 *
 * Tested by test/run/doctor_programs.py.
 */
#include "tool/doctor/findings.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tool/common/image.h"
#include "tool/common/library.h"
#include "tool/common/target.h"
#include "tool/doctor/machine.h"
#include "tool/tool.h"

enum { MESSAGE_MAX = 3 * PATH_MAX };

/*
 * Return: the flag that makes `uaio run` use the trap, which catches all system calls;
 * "" if the environment already sets this option.
 */
static const char *trap_flag(const struct uaio_machine *machine)
{
	return machine->options[UAIO_OPTION_TRAP] ? "" : "--trap ";
}

#define RUN_TRAPPED "start it by uaio run --trap, or "

/* The program that is examined. */
struct program {
	const struct uaio_machine *machine;
	struct uaio_findings *findings;
	/* file of the program; for a script, of its interpreter */
	char path[PATH_MAX];
	bool can_be_loaded;
	/*
	 * The trap serves this program, because the library cannot be loaded into it,
	 * or the environment sets UAIO_TRAP.
	 */
	bool can_be_trapped;
	struct uaio_uses uses;
};

/*
 * Add a finding with the text of a message that came with this exit status. If the
 * program is refused, the part after the message's last colon becomes the finding's
 * fix. For another status, that part is the text of an error.
 */
static void add_message(const struct program *program, int status,
			bool needs_trap, char *message)
{
	char *fix = status == EXIT_REFUSED ? strrchr(message, ':') : NULL;
	struct uaio_finding *finding;

	if (fix)
		*fix++ = '\0';
	finding = uaio_find(program->findings,
			    program->can_be_trapped ? UAIO_WARN : UAIO_FAIL,
			    "program", "%s", message);
	if (needs_trap && !program->can_be_trapped)
		fix = "use a dynamic build of it for glibc, as uaio run --trap "
		      "needs an x86-64 with Linux 5.11, and prctl";
	uaio_finding_fix(finding, "program", "%s%s",
			 !fix && program->can_be_trapped ? RUN_TRAPPED : "",
			 fix ? fix + strspn(fix, " ")
			     : "install that file, or name another one in the "
			       "program");
}

static bool needs_trap(const char *path)
{
	static struct uaio_target target;
	char message[MESSAGE_MAX];

	uaio_diag_into(message, sizeof(message));
	return !uaio_target_check(path, UAIO_TRAP_AUTO, &target) &&
	       target.needs_trap;
}

static int find_file(struct program *program, const char *argument)
{
	static struct uaio_target target;
	char message[MESSAGE_MAX] = "", path[PATH_MAX];
	int status, refused = 0;

	uaio_diag_into(message, sizeof(message));
	status = uaio_search_command(argument, path);
	if (!status)
		refused = uaio_target_check(path, UAIO_TRAP_OFF, &target);
	if (status) {
		struct uaio_finding *finding = uaio_find(
			program->findings, UAIO_FAIL, "program", "%s", message);

		uaio_finding_fix(finding, "program",
				 "write its path, or see PATH");
	} else if (refused) {
		bool is_trapped = needs_trap(path);

		program->can_be_trapped =
			is_trapped &&
			program->machine->served.doors[UAIO_SERVED_TRAP]
				.is_served;
		if (program->can_be_trapped && !*trap_flag(program->machine))
			uaio_find(program->findings, UAIO_PASS, "program",
				  "%s: uaio run has the trap for it, as "
				  "UAIO_TRAP is set",
				  path);
		else
			add_message(program, refused, is_trapped, message);
	} else {
		program->can_be_loaded = true;
		uaio_find(program->findings, UAIO_PASS, "program",
			  "%s: the library can be loaded into it", path);
	}
	uaio_diag_into(NULL, 0);
	if (!status)
		uaio_target_program(path, program->path);
	return status;
}

/*
 * Add a finding about an interface that the program uses: how it is served, or why not.
 */
static void add_use(const struct program *program, const char *subject,
		    const char *users, const char *served_how)
{
	struct uaio_finding *finding;

	if (program->can_be_loaded || program->can_be_trapped) {
		uaio_find(program->findings, UAIO_PASS, subject, "%s: %s",
			  users, served_how);
		return;
	}
	finding = uaio_find(program->findings, UAIO_FAIL, subject,
			    "%s: not served, as the library cannot be loaded",
			    users);
	uaio_finding_fix(finding, "program", "as for the program");
}

static void judge_aio(const struct program *program)
{
	const struct uaio_uses *uses = &program->uses;
	char users[UAIO_USERS_MAX + 64];

	if (uses->users[UAIO_USE_LIBAIO][0]) {
		(void)snprintf(users, sizeof(users),
			       "functions of libaio in %s",
			       uses->users[UAIO_USE_LIBAIO]);
		add_use(program, "kernel AIO", users, "uaio run serves them");
	}
	if (uses->users[UAIO_USE_POSIX][0]) {
		(void)snprintf(users, sizeof(users),
			       "aio_read and its like in %s",
			       uses->users[UAIO_USE_POSIX]);
		if (program->machine->options[UAIO_OPTION_POSIX])
			uaio_find(program->findings, UAIO_PASS, "POSIX AIO",
				  "%s: the C library's own, as UAIO_POSIX=off "
				  "is set",
				  users);
		else
			add_use(program, "POSIX AIO", users,
				"uaio run serves them");
	}
}

/*
 * Return: whether `uaio run --trap` works here and the library can be loaded into the
 * program.
 */
static bool may_trap(const struct program *program)
{
	return program->can_be_loaded &&
	       program->machine->served.doors[UAIO_SERVED_TRAP].is_served;
}

/*
 * Add a finding if the program's own instructions call kernel AIO: `uaio run` never
 * patches such instructions.
 */
static void judge_aio_sites(const struct program *program)
{
	const struct uaio_uses *uses = &program->uses;
	struct uaio_finding *finding;

	if (!uses->nr_aio_sites)
		return;
	if (program->can_be_trapped) {
		uaio_find(program->findings, UAIO_PASS, "kernel AIO",
			  "%u instruction%s in %s that call%s it: uaio run "
			  "%sserves them",
			  uses->nr_aio_sites,
			  uses->nr_aio_sites == 1 ? "" : "s",
			  uses->users[UAIO_USE_AIO_SITES],
			  uses->nr_aio_sites == 1 ? "s" : "",
			  trap_flag(program->machine));
		return;
	}
	finding = uaio_find(program->findings, UAIO_WARN, "kernel AIO",
			    "%u instruction%s in %s that call%s it: the calls "
			    "reach the kernel",
			    uses->nr_aio_sites,
			    uses->nr_aio_sites == 1 ? "" : "s",
			    uses->users[UAIO_USE_AIO_SITES],
			    uses->nr_aio_sites == 1 ? "s" : "");
	uaio_finding_fix(finding, "program", "%s%s",
			 may_trap(program) ? RUN_TRAPPED : "",
			 program->can_be_loaded
				 ? "use a build with libaio as a "
				   "library"
				 : "as for the program");
}

static void judge_left_sites(const struct program *program)
{
	const unsigned nr = program->uses.nr_sites_left;
	struct uaio_finding *finding;

	if (!nr || !program->can_be_loaded)
		return;
	finding = uaio_find(program->findings, UAIO_WARN, "io_uring",
			    "%u instruction%s in %s that call%s it cannot be "
			    "changed: the calls reach the kernel",
			    nr, nr == 1 ? "" : "s",
			    program->uses.users[UAIO_USE_SITES],
			    nr == 1 ? "s" : "");
	uaio_finding_fix(finding, "program",
			 "%suse a build with liburing as a "
			 "library",
			 may_trap(program) ? RUN_TRAPPED : "");
}

/*
 * Try to make code of this process writable.
 * Return: whether that works; false without a try if a seccomp filter might kill the
 * process.
 */
static bool may_change_code(const struct uaio_machine *machine)
{
	const int page = 4096, all = PROT_READ | PROT_WRITE | PROT_EXEC;
	const unsigned call = UAIO_CALL_MPROTECT_EXEC;
	bool may_change;
	void *memory;

	if (machine->has_allowed
		    ? !(machine->allowed.words[call / 64] >> call % 64 & 1)
		    : machine->nr_filters)
		return false;
	memory = mmap(NULL, page, PROT_READ | PROT_EXEC,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	may_change = mprotect(memory, page, all) == 0;
	(void)munmap(memory, page);
	return may_change;
}

/* Return: why `uaio run` patches no instruction of the program. */
static const char *why_fixed(const struct program *program)
{
	return program->machine->options[UAIO_OPTION_NO_PATCH]
		       ? "UAIO_NO_PATCH is set"
		       : "code must not be changed here";
}

/* Warn about system call instructions that `uaio run` should patch, but cannot. */
static void warn_of_sites(const struct program *program, const char *users)
{
	const bool is_asked_for =
		program->machine->options[UAIO_OPTION_NO_PATCH];
	struct uaio_finding *finding =
		uaio_find(program->findings, UAIO_WARN, "io_uring",
			  "%s: not served, as %s", users, why_fixed(program));

	if (is_asked_for) {
		uaio_finding_fix(finding, "option", "unset UAIO_NO_PATCH");
		return;
	}
	uaio_finding_fix(
		finding, program->machine->nr_filters > 0 ? "seccomp" : "other",
		"%sallow mprotect with PROT_EXEC "
		"(MemoryDenyWriteExecute=no), or use a build with "
		"liburing as a library",
		may_trap(program) ? "start it by uaio run --trap=always, or "
				  : "");
}

/* Write a text that says how the program's io_uring calls are served. */
static void tell_how(const struct program *program, char *how, size_t bytes)
{
	const uint64_t when = program->machine->options[UAIO_OPTION_URING];
	const char *trap =
		program->can_be_trapped ? trap_flag(program->machine) : "";

	if (uaio_machine_ring_server(program->machine) == UAIO_RINGS_OURS)
		(void)snprintf(how, bytes, "uaio run %sserves them%s", trap,
			       when == UAIO_URING_ALWAYS
				       ? ", as UAIO_URING=always is set"
				       : "");
	else if (when == UAIO_URING_NEVER)
		(void)snprintf(how, bytes,
			       "by the kernel's io_uring, as UAIO_URING=never "
			       "is set");
	else
		(void)snprintf(how, bytes,
			       "by the kernel's io_uring, which is allowed "
			       "here; uaio run %s--uring=always serves them",
			       trap);
}

static void add_ring_use(const struct program *program, const char *users,
			 const char *how)
{
	struct uaio_finding *finding;

	if (uaio_machine_ring_server(program->machine) != UAIO_RINGS_NOBODYS) {
		add_use(program, "io_uring", users, how);
		return;
	}
	finding = uaio_find(program->findings, UAIO_FAIL, "io_uring",
			    "%s: not served, as UAIO_URING=never leaves them "
			    "to the kernel, which refuses them",
			    users);
	uaio_finding_fix(finding, "option", "unset UAIO_URING");
}

static void judge_uring(const struct program *program)
{
	const struct uaio_uses *uses = &program->uses;
	const bool is_fixed =
		program->can_be_loaded &&
		(program->machine->options[UAIO_OPTION_NO_PATCH] ||
		 !may_change_code(program->machine));
	const bool has_uring = uaio_machine_has_uring(program->machine);
	char how[160], fixed[160];
	char users[UAIO_USERS_MAX + 64];
	unsigned nr;

	tell_how(program, how, sizeof(how));
	(void)snprintf(fixed, sizeof(fixed),
		       "by the kernel's io_uring, which is allowed here; uaio "
		       "run --uring=always cannot serve them, as %s",
		       why_fixed(program));
	if (uses->users[UAIO_USE_LIBURING][0]) {
		(void)snprintf(users, sizeof(users),
			       "functions of liburing in %s",
			       uses->users[UAIO_USE_LIBURING]);
		add_ring_use(program, users, how);
	}
	nr = uses->nr_sites +
	     (program->can_be_loaded ? 0 : uses->nr_sites_left);
	if (nr) {
		(void)snprintf(users, sizeof(users),
			       "%u instruction%s in %s that call%s it", nr,
			       nr == 1 ? "" : "s", uses->users[UAIO_USE_SITES],
			       nr == 1 ? "s" : "");
		if (is_fixed && !has_uring)
			warn_of_sites(program, users);
		else
			add_ring_use(program, users, is_fixed ? fixed : how);
	}
	judge_left_sites(program);
}

/* Judge a program whose files do not show which interfaces it uses. */
static void judge_unknown(const struct program *program)
{
	const struct uaio_uses *uses = &program->uses;
	bool is_seen = uaio_uses_show_any(uses);
	bool may_call = uses->users[UAIO_USE_SYSCALL][0];
	bool may_load = uses->users[UAIO_USE_DLOPEN][0];
	struct uaio_finding *finding;

	if (!is_seen && program->can_be_trapped)
		uaio_find(program->findings, UAIO_PASS, "interfaces",
			  "no asynchronous interface can be seen, but it may "
			  "call any: uaio run %s--stats shows what it does",
			  trap_flag(program->machine));
	if (is_seen || !program->can_be_loaded)
		return;
	if (uses->may_call_any && may_trap(program)) {
		uaio_find(program->findings, UAIO_PASS, "interfaces",
			  "no asynchronous interface can be seen, but its own "
			  "instructions may call any: uaio run --trap --stats "
			  "shows what it does");
		return;
	}
	if (may_call || may_load) {
		uaio_find(program->findings, UAIO_PASS, "interfaces",
			  "no asynchronous interface can be seen, but it %s "
			  "any: uaio run --stats shows what it does",
			  may_call ? "may call syscall(2) for"
				   : "may load a library that uses");
		return;
	}
	finding = uaio_find(program->findings, UAIO_WARN, "interfaces",
			    "no asynchronous interface can be seen in it: "
			    "there is nothing to serve, unless it runs "
			    "programs that use one");
	uaio_finding_fix(finding, "program",
			 "look at the programs that it runs");
}

static void judge_sanitizer(const struct program *program)
{
	if (program->uses.users[UAIO_USE_SANITIZER][0])
		uaio_find(program->findings, UAIO_PASS, "sanitizer",
			  "built with one (%s)",
			  program->uses.users[UAIO_USE_SANITIZER]);
}

static void judge_missing(const struct program *program)
{
	struct uaio_finding *finding;

	if (!program->uses.missing[0])
		return;
	finding = uaio_find(program->findings, UAIO_FAIL, "libraries",
			    "not found: %s", program->uses.missing);
	uaio_finding_fix(finding, "program",
			 "install the packages that have them, or "
			 "set LD_LIBRARY_PATH");
}

/*
 * If the environment sets UAIO_TRAP, `uaio run` may use the trap even if the library
 * can be loaded into the program.
 */
static void apply_trap(struct program *program)
{
	const uint64_t when = program->machine->options[UAIO_OPTION_TRAP];

	if (!may_trap(program) || when == UAIO_TRAP_OFF ||
	    (when == UAIO_TRAP_AUTO && !uaio_uses_want_trap(&program->uses)))
		return;
	program->can_be_loaded = false;
	program->can_be_trapped = true;
}

void uaio_program_judge(const char *argument,
			const struct uaio_machine *machine,
			struct uaio_findings *findings)
{
	static struct program program;
	int ret;

	program = (struct program){ .machine = machine, .findings = findings };
	findings->section = argument;
	if (find_file(&program, argument))
		return;
	/*
	 * The program may need libaio: set the variables that make the loader find the
	 * library in place of libaio.
	 */
	if (machine->library[0])
		(void)uaio_preload_set(machine->library);
	ret = uaio_uses_read(program.path, program.can_be_loaded,
			     &program.uses);
	if (ret == -ENOEXEC &&
	    (program.can_be_loaded || program.can_be_trapped)) {
		uaio_finding_fix(
			uaio_find(findings, UAIO_WARN, "interfaces",
				  "not known: %s is damaged, or larger than "
				  "the doctor reads",
				  program.path),
			"program", "if it does not start, install it again");
		return;
	}
	if (ret) {
		uaio_find(findings, UAIO_PASS, "interfaces",
			  "not known: %s: %s", program.path, strerror(-ret));
		return;
	}
	apply_trap(&program);
	judge_missing(&program);
	judge_sanitizer(&program);
	judge_aio(&program);
	judge_aio_sites(&program);
	judge_uring(&program);
	judge_unknown(&program);
}
