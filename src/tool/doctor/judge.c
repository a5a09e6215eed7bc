/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "options/names.h"
#include "tool/doctor/machine.h"

/* room for the name of a system call, and a comma */
enum { NAME_MAX_BYTES = 40 };

#define RUN_IT "start programs that use it by uaio run, which serves it"

/*
 * What executes system calls here: Linux on a real processor; gVisor or WSL 1, which
 * imitate Linux; or an emulator of another processor.
 */
enum kind { LINUX, GVISOR, WSL1, EMULATED };

static const char *const kind_names[] = {
	[GVISOR] = "gVisor",
	[WSL1] = "WSL 1",
	[EMULATED] = "an emulator of another processor",
};

static const char *const kind_causes[] = {
	[GVISOR] = "gvisor",
	[WSL1] = "wsl1",
	[EMULATED] = "emulation",
};

/*
 * gVisor returns the version text of a kernel that was built in 2016. WSL 1 has
 * "-Microsoft" in its release; WSL 2, which is a Linux kernel, has "-microsoft". An
 * emulator changes the machine name that uname(2) returns, but not the name in
 * /proc/sys/kernel/arch.
 */
static enum kind kind_of(const struct uaio_machine *machine)
{
	if (strstr(machine->name.version, "Sun Jan 10 15:06:54 PST 2016"))
		return GVISOR;
	if (strstr(machine->name.release, "-Microsoft"))
		return WSL1;
	if (machine->arch[0] && strcmp(machine->arch, machine->name.machine))
		return EMULATED;
	return LINUX;
}

static void judge_name(const struct uaio_machine *machine,
		       struct uaio_findings *findings)
{
	enum kind kind = kind_of(machine);
	struct uaio_finding *finding;

	if (kind == LINUX) {
		uaio_find(findings, UAIO_PASS, "kernel", "%s %s on %s",
			  machine->name.sysname, machine->name.release,
			  machine->name.machine);
		return;
	}
	finding = uaio_find(findings, UAIO_WARN, "kernel",
			    "%s, which says it is %s %s on %s",
			    kind_names[kind], machine->name.sysname,
			    machine->name.release, machine->name.machine);
	uaio_finding_fix(finding, kind_causes[kind],
			 "uaio run serves what it lacks of "
			 "asynchronous I/O");
}

/* Seccomp filters */

static bool has_call(const struct uaio_call_set *set, unsigned call)
{
	return set->words[call / 64] >> call % 64 & 1;
}

/*
 * Return: whether there is a separate finding about this call, as for the calls of
 * kernel AIO and io_uring.
 */
static bool has_own_line(unsigned call)
{
	return call == UAIO_CALL_IO_SETUP || call == UAIO_CALL_IO_DESTROY ||
	       call == UAIO_CALL_IO_SUBMIT || call == UAIO_CALL_URING_SETUP ||
	       call == UAIO_CALL_URING_ENTER ||
	       call == UAIO_CALL_URING_REGISTER;
}

/*
 * Write the names of the calls that are not allowed and have no finding of their own.
 * Return: how many there are.
 */
static unsigned list_refused(const struct uaio_call_set *allowed,
			     char *ret_list, size_t len)
{
	unsigned nr = 0;
	size_t at = 0;

	*ret_list = '\0';
	for (unsigned call = 0; call < UAIO_NR_CALLS; call++) {
		if (has_own_line(call) || has_call(allowed, call))
			continue;
		at += (size_t)snprintf(ret_list + at, len - at, "%s%s",
				       nr++ ? ", " : "", uaio_call_name(call));
	}
	return nr;
}

static void judge_filters(const struct uaio_machine *machine,
			  struct uaio_findings *findings)
{
	struct uaio_finding *finding;
	char list[UAIO_NR_CALLS * NAME_MAX_BYTES];
	unsigned nr_refused;

	if (machine->nr_filters < 0) {
		finding = uaio_find(findings, UAIO_WARN, "filters",
				    "not known: /proc/thread-self/status "
				    "does not tell");
		uaio_finding_fix(finding, "other",
				 "mount /proc; without it the library makes "
				 "only calls that any program makes");
		return;
	}
	if (!machine->nr_filters) {
		uaio_find(findings, UAIO_PASS, "filters",
			  "no filter of system calls (seccomp)");
		return;
	}
	nr_refused = machine->has_allowed ? list_refused(&machine->allowed,
							 list, sizeof(list))
					  : 0;
	if (!nr_refused) {
		uaio_find(findings, UAIO_PASS, "filters",
			  "%d of system calls (seccomp); but for what is "
			  "below, the library may make all calls it would "
			  "like to",
			  machine->nr_filters);
		return;
	}
	finding = uaio_find(findings, UAIO_WARN, "filters",
			    "%d of system calls (seccomp); the library does "
			    "without %s",
			    machine->nr_filters, list);
	uaio_finding_fix(finding, "seccomp",
			 "allow %s, if what it is for is missed: "
			 "doc/sandboxes.md says what that is",
			 nr_refused == 1 ? "it" : "them");
}

/* System calls */

static bool is_uring(enum uaio_answer_id id)
{
	return id >= UAIO_ANSWER_URING_SETUP;
}

static bool is_uring_switched_off(const struct uaio_machine *machine)
{
	return machine->uring_disabled >= 2 ||
	       (machine->uring_disabled == 1 && !machine->may_ring_when_1);
}

int uaio_machine_version(const struct uaio_machine *machine)
{
	int major, minor;

	return sscanf(machine->name.release, "%d.%d", &major, &minor) == 2
		       ? 100 * major + minor
		       : 0;
}

/*
 * Why a call failed: a word for scripts (cause), the end of a sentence for the user
 * (text), and what the user can do (fix).
 */
struct reason {
	const char *cause;
	char text[160];
	char fix[160];
};

static void reason_of_sysctl(const struct uaio_machine *machine,
			     struct reason *ret)
{
	ret->cause = "sysctl";
	(void)snprintf(
		ret->text, sizeof(ret->text),
		"kernel.io_uring_disabled is %lld%s%s", machine->uring_disabled,
		machine->uring_disabled == 1 ? ", and this user is not in "
					       "kernel.io_uring_group"
					     : "",
		machine->nr_filters > 0 ? "; filters may refuse it too" : "");
	(void)snprintf(ret->fix, sizeof(ret->fix),
		       RUN_IT "; or sysctl kernel.io_uring_disabled=0");
}

static void reason_of_filter(const struct uaio_machine *machine,
			     struct reason *ret)
{
	ret->cause = "seccomp";
	(void)snprintf(ret->text, sizeof(ret->text),
		       "by %s of system calls (seccomp)",
		       machine->nr_filters == 1 ? "the filter" : "a filter");
}

static void reason_of_missing(const struct uaio_machine *machine,
			      enum uaio_answer_id id, struct reason *ret)
{
	enum kind kind = kind_of(machine);
	int version = uaio_machine_version(machine),
	    since = uaio_answer_since(id);

	if (kind != LINUX) {
		ret->cause = kind_causes[kind];
		(void)snprintf(ret->text, sizeof(ret->text), "%s has none",
			       kind_names[kind]);
	} else if (version && version < since) {
		ret->cause = "kernel";
		(void)snprintf(ret->text, sizeof(ret->text),
			       "Linux has it since %d.%d", since / 100,
			       since % 100);
	} else if (machine->nr_filters > 0) {
		reason_of_filter(machine, ret);
	} else {
		ret->cause = "kernel";
		(void)snprintf(ret->text, sizeof(ret->text),
			       "this kernel was built without %s, or is "
			       "emulated",
			       is_uring(id) ? "CONFIG_IO_URING" : "CONFIG_AIO");
	}
}

static void find_reason(const struct uaio_machine *machine,
			enum uaio_answer_id id, int error, struct reason *ret)
{
	*ret = (struct reason){ .cause = "other", .fix = RUN_IT };
	if (error == EPERM && is_uring(id) && is_uring_switched_off(machine))
		reason_of_sysctl(machine, ret);
	else if (error == ENOSYS)
		reason_of_missing(machine, id, ret);
	else if (machine->nr_filters > 0)
		reason_of_filter(machine, ret);
	else
		(void)snprintf(ret->text, sizeof(ret->text),
			       "by a security module, or a filter that "
			       "/proc does not show");
}

static void judge_call(const struct uaio_machine *machine,
		       enum uaio_answer_id id, struct uaio_findings *findings)
{
	const char *name = uaio_answer_name(id);
	int error = machine->answers.errors[id];
	int signal = machine->answers.signals[id];
	struct uaio_finding *finding;
	struct reason reason;

	if (signal) {
		finding = uaio_find(findings, UAIO_WARN, name,
				    "ends the program by %s: a filter of "
				    "system calls (seccomp)",
				    signal == SIGSYS ? "SIGSYS"
						     : strsignal(signal));
		uaio_finding_fix(finding, "seccomp", RUN_IT);
	} else if (error) {
		find_reason(machine, id, error, &reason);
		finding = uaio_find(findings, UAIO_WARN, name, "%s: %s",
				    uaio_error_name(error), reason.text);
		finding->error = error;
		uaio_finding_fix(finding, reason.cause, "%s", reason.fix);
	} else {
		uaio_find(findings, UAIO_PASS, name, "allowed");
	}
}

static void judge_untried(const struct uaio_machine *machine,
			  struct uaio_findings *findings)
{
	struct uaio_finding *finding =
		uaio_find(findings, UAIO_FAIL, "calls",
			  "not tried, as no child process can be made: %s",
			  uaio_error_name(machine->tries_error));

	finding->error = machine->tries_error;
	uaio_finding_fix(finding, "limit",
			 "allow this user more processes: ulimit -u, "
			 "pids.max");
}

/*
 * Return: whether the child process could make the call: it was not killed, and the
 * call was not denied.
 */
static bool is_allowed(const struct uaio_machine *machine,
		       enum uaio_answer_id id)
{
	return !machine->answers.signals[id] && !machine->answers.errors[id];
}

bool uaio_machine_has_uring(const struct uaio_machine *machine)
{
	int error = machine->answers.uring_error;

	/*
	 * ENOMEM or EAGAIN means that a limit denied even the smallest ring. Then the
	 * library will make the rings.
	 */
	return is_allowed(machine, UAIO_ANSWER_URING_SETUP) &&
	       error != ENOMEM && error != EAGAIN;
}

enum uaio_ring_server
uaio_machine_ring_server(const struct uaio_machine *machine)
{
	const uint64_t when = machine->options[UAIO_OPTION_URING];

	if (when != UAIO_URING_ALWAYS && uaio_machine_has_uring(machine))
		return UAIO_RINGS_KERNELS;
	return when == UAIO_URING_NEVER ? UAIO_RINGS_NOBODYS : UAIO_RINGS_OURS;
}

/* Whether and how uaio serves each interface on this machine */

static void judge_library(const struct uaio_machine *machine,
			  struct uaio_findings *findings)
{
	const struct uaio_served *served = &machine->served;
	struct uaio_finding *finding;

	if (!machine->library[0]) {
		finding = uaio_find(findings, UAIO_FAIL, "library", "%s",
				    machine->complaint);
		uaio_finding_fix(finding, "library", "make, or make install");
	} else if (!served->is_tried) {
		finding = uaio_find(findings, UAIO_FAIL, "library",
				    "not tried: no child process");
		uaio_finding_fix(finding, "limit",
				 "allow this user more processes");
	} else if (!served->doors[UAIO_SERVED_LOADED].is_served) {
		finding = uaio_find(
			findings, UAIO_FAIL, "library", "cannot be loaded: %s",
			served->doors[UAIO_SERVED_LOADED].signal
				? strsignal(served->doors[UAIO_SERVED_LOADED]
						    .signal)
				: served->doors[UAIO_SERVED_LOADED].why);
		uaio_finding_fix(finding, "library",
				 "put it on a file system that is not "
				 "mounted noexec, and into a root "
				 "with its C library");
	} else {
		uaio_find(findings, UAIO_PASS, "library", "%s",
			  machine->library);
	}
}

static void judge_door(const struct uaio_machine *machine,
		       enum uaio_served_id id, const char *subject,
		       const char *how, struct uaio_findings *findings)
{
	const struct uaio_served *served = &machine->served;
	int signal = served->doors[id].signal;
	struct uaio_finding *finding;

	if (!served->is_tried || !served->doors[UAIO_SERVED_LOADED].is_served)
		return;
	if (served->doors[id].is_served) {
		uaio_find(findings, UAIO_PASS, subject, "%s", how);
		return;
	}
	finding =
		uaio_find(findings, UAIO_FAIL, subject, "not served here: %s%s",
			  signal ? "a request ended in " : "",
			  signal ? strsignal(signal)
				 : uaio_error_name(served->doors[id].error));
	finding->error = served->doors[id].error;
	if (machine->fsize.rlim_cur != RLIM_INFINITY &&
	    (signal == SIGXFSZ || finding->error == ENOMEM)) {
		uaio_finding_fix(finding, "limit",
				 "raise ulimit -f, or free memory");
		return;
	}
	uaio_finding_fix(finding, machine->nr_filters > 0 ? "seccomp" : "other",
			 "allow the calls that doc/sandboxes.md names "
			 "as needed, and for io_uring memfd_create");
}

static void judge_rings(const struct uaio_machine *machine,
			struct uaio_findings *findings)
{
	const uint64_t when = machine->options[UAIO_OPTION_URING];
	struct uaio_finding *finding;

	if (when != UAIO_URING_NEVER) {
		judge_door(machine, UAIO_SERVED_URING, "io_uring",
			   when == UAIO_URING_ALWAYS
				   ? "uaio run serves it, as UAIO_URING=always "
				     "is set"
			   : uaio_machine_has_uring(machine)
				   ? "the kernel's own, as it is allowed; uaio "
				     "run serves rings that a limit refuses, "
				     "and all with --uring=always"
				   : "uaio run serves it",
			   findings);
	} else if (uaio_machine_has_uring(machine)) {
		uaio_find(findings, UAIO_PASS, "io_uring",
			  "the kernel's own, as UAIO_URING=never is set");
	} else {
		finding = uaio_find(findings, UAIO_FAIL, "io_uring",
				    "not served, as UAIO_URING=never leaves it "
				    "to the kernel, which refuses it");
		uaio_finding_fix(finding, "option", "unset UAIO_URING");
	}
}

static void judge_doors(const struct uaio_machine *machine,
			struct uaio_findings *findings)
{
	judge_library(machine, findings);
	judge_door(machine, UAIO_SERVED_AIO, "kernel AIO",
		   "uaio run serves libaio and io_setup", findings);
	judge_rings(machine, findings);
	if (machine->options[UAIO_OPTION_POSIX] == UAIO_POSIX_OFF)
		uaio_find(findings, UAIO_PASS, "POSIX AIO",
			  "the C library's own, as UAIO_POSIX=off is set");
	else
		judge_door(machine, UAIO_SERVED_POSIX, "POSIX AIO",
			   "uaio run serves aio_read and its like", findings);
}

/*
 * The environment sets the backend (how direct I/O is executed). Say whether this
 * backend is available. is_there: the environment sets the kernel's AIO or io_uring,
 * and the kernel provides it.
 */
static void judge_set_backend(const struct uaio_machine *machine, bool is_there,
			      struct uaio_findings *findings)
{
	const struct uaio_option *option = &uaio_options[UAIO_OPTION_BACKEND];
	const uint64_t backend = machine->options[UAIO_OPTION_BACKEND];
	struct uaio_finding *finding;

	if (is_there) {
		uaio_find(findings, UAIO_PASS, "direct I/O",
			  "uaio run executes it by the kernel's %s, as %s=%s "
			  "is set",
			  backend == UAIO_BACKEND_AIO ? "own AIO" : "io_uring",
			  option->variable, option->words[backend]);
		return;
	}
	finding = uaio_find(findings, UAIO_WARN, "direct I/O",
			    "uaio run executes it by threads, at about three "
			    "times the processor time, as %s=%s is set%s",
			    option->variable, option->words[backend],
			    backend == UAIO_BACKEND_THREADS
				    ? ""
				    : ", which cannot be had here");
	uaio_finding_fix(finding, "option", "unset %s", option->variable);
}

/*
 * Find out which backend (kernel AIO, io_uring or threads) executes direct I/O. With
 * --backend=auto the library tries them in this order.
 */
static void judge_backend(const struct uaio_machine *machine,
			  struct uaio_findings *findings)
{
	const uint64_t backend = machine->options[UAIO_OPTION_BACKEND];
	bool has_aio = is_allowed(machine, UAIO_ANSWER_IO_SETUP) &&
		       is_allowed(machine, UAIO_ANSWER_IO_SUBMIT) &&
		       is_allowed(machine, UAIO_ANSWER_IO_DESTROY) &&
		       !machine->answers.aio_error;
	bool has_uring = uaio_machine_has_uring(machine) &&
			 is_allowed(machine, UAIO_ANSWER_URING_ENTER) &&
			 is_allowed(machine, UAIO_ANSWER_URING_REGISTER) &&
			 !machine->answers.uring_error;
	const char *cause = machine->nr_filters > 0 ? "seccomp" : "other";
	struct uaio_finding *finding;

	if (backend != UAIO_BACKEND_AUTO && !machine->tries_error) {
		judge_set_backend(
			machine,
			(backend == UAIO_BACKEND_AIO && has_aio) ||
				(backend == UAIO_BACKEND_URING && has_uring),
			findings);
		return;
	}
	if (has_aio || has_uring) {
		uaio_find(findings, UAIO_PASS, "direct I/O",
			  "uaio run executes it by the kernel's %s",
			  has_aio ? "own AIO" : "io_uring");
		return;
	}
	if (machine->tries_error)
		return;
	finding = uaio_find(findings, UAIO_WARN, "direct I/O",
			    "uaio run executes it by threads, at about three "
			    "times the processor time");
	if (machine->answers.aio_error == EAGAIN &&
	    is_allowed(machine, UAIO_ANSWER_IO_SETUP))
		cause = "quota";
	uaio_finding_fix(finding, cause, "%s",
			 !strcmp(cause, "quota") ? "raise fs.aio-max-nr"
			 : !strcmp(cause, "seccomp")
				 ? "allow io_setup, io_submit and io_destroy"
				 : "use a kernel with kernel AIO (CONFIG_AIO), "
				   "if direct I/O is much of the work");
}

void uaio_machine_judge(const struct uaio_machine *machine,
			struct uaio_findings *findings)
{
	findings->section = UAIO_SECTION_MACHINE;
	judge_name(machine, findings);
	judge_filters(machine, findings);
	if (machine->tries_error)
		judge_untried(machine, findings);
	for (unsigned id = 0; id < UAIO_NR_ANSWERS && !machine->tries_error;
	     id++)
		judge_call(machine, id, findings);
	uaio_machine_judge_limits(machine, findings);
	findings->section = UAIO_SECTION_UAIO;
	judge_doors(machine, findings);
	judge_backend(machine, findings);
}
