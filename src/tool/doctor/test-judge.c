/* SPDX-License-Identifier: MIT */
/* Tests the findings of `uaio doctor` about made-up machines */
#undef NDEBUG
#include "tool/doctor/machine.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Return: the facts of a machine on which everything works. */
static struct uaio_machine good(void)
{
	struct uaio_machine machine = {
		.arch = "x86_64",
		.has_allowed = true,
		.aio_max_nr = 65536,
		.uring_disabled = 0,
		.memlock = { RLIM_INFINITY, RLIM_INFINITY },
		.nofile = { 1024, 1024 },
		.nproc = { 10000, 10000 },
		.fsize = { RLIM_INFINITY, RLIM_INFINITY },
		.nr_open_files = 3,
		.pids_max = LLONG_MAX,
		.memory_max = LLONG_MAX,
		.served.is_tried = 1,
	};

	memset(&machine.allowed, 0xff, sizeof(machine.allowed));
	strcpy(machine.library, "/usr/lib/uaio");
	strcpy(machine.name.sysname, "Linux");
	strcpy(machine.name.release, "6.1.0");
	strcpy(machine.name.version, "#1 SMP");
	strcpy(machine.name.machine, "x86_64");
	for (unsigned i = 0; i < UAIO_NR_SERVED; i++)
		machine.served.doors[i].is_served = 1;
	return machine;
}

/*
 * Judge a machine.
 * Return: its only finding about a subject.
 */
static struct uaio_finding judged(const struct uaio_machine *machine,
				  struct uaio_findings *findings,
				  const char *subject)
{
	struct uaio_finding found = { 0 };
	unsigned nr = 0;

	uaio_machine_judge(machine, findings);
	for (size_t i = 0; i < findings->nr; i++)
		if (!strcmp(findings->all[i].subject, subject)) {
			found = findings->all[i];
			nr++;
		}
	assert_int_equal(nr, 1);
	return found;
}

static void expect(const struct uaio_machine *machine, const char *subject,
		   enum uaio_level level, const char *cause, const char *words)
{
	struct uaio_findings findings = { 0 };
	struct uaio_finding found = judged(machine, &findings, subject);

	assert_int_equal(found.level, level);
	assert_int_equal(!found.fix, level == UAIO_PASS);
	assert_int_equal(!found.cause, !cause);
	if (cause)
		assert_string_equal(found.cause, cause);
	assert_non_null(strstr(found.text, words));
	uaio_findings_free(&findings);
}

static void test_a_good_machine_passes(void **state)
{
	struct uaio_machine machine = good();
	struct uaio_findings findings = { 0 };

	(void)state;
	uaio_machine_judge(&machine, &findings);
	assert_int_equal(uaio_findings_worst(&findings), UAIO_PASS);
	uaio_findings_free(&findings);
}

static void test_kinds_of_kernels(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	machine.answers.errors[UAIO_ANSWER_URING_SETUP] = ENOSYS;
	strcpy(machine.name.release, "4.4.0");
	strcpy(machine.name.version, "#1 SMP Sun Jan 10 15:06:54 PST 2016");
	expect(&machine, "kernel", UAIO_WARN, "gvisor", "gVisor");
	expect(&machine, "io_uring_setup", UAIO_WARN, "gvisor", "gVisor");

	machine.name.version[0] = '\0';
	strcpy(machine.name.release, "4.4.0-19041-Microsoft");
	expect(&machine, "kernel", UAIO_WARN, "wsl1", "WSL 1");
	expect(&machine, "io_uring_setup", UAIO_WARN, "wsl1", "WSL 1");

	strcpy(machine.name.release, "5.15.90.1-microsoft-standard-WSL2");
	expect(&machine, "kernel", UAIO_PASS, NULL, "WSL2");
	expect(&machine, "io_uring_setup", UAIO_WARN, "kernel",
	       "CONFIG_IO_URING");

	strcpy(machine.arch, "aarch64");
	expect(&machine, "kernel", UAIO_WARN, "emulation", "emulator");
	expect(&machine, "io_uring_setup", UAIO_WARN, "emulation", "emulator");
}

static void test_a_kernel_that_is_too_old(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	/*
	 * there is a filter, but the cause is the kernel, which is too old for this
	 * call
	 */
	machine.nr_filters = 1;
	machine.answers.errors[UAIO_ANSWER_URING_SETUP] = ENOSYS;
	strcpy(machine.name.release, "4.19.0");
	expect(&machine, "io_uring_setup", UAIO_WARN, "kernel", "since 5.1");
	strcpy(machine.name.release, "5.1.0");
	expect(&machine, "io_uring_setup", UAIO_WARN, "seccomp", "filter");
}

static void test_who_refuses_io_uring(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	machine.answers.errors[UAIO_ANSWER_URING_SETUP] = EPERM;
	expect(&machine, "io_uring_setup", UAIO_WARN, "other", "module");
	machine.nr_filters = 2;
	expect(&machine, "io_uring_setup", UAIO_WARN, "seccomp", "a filter");
	machine.uring_disabled = 2;
	expect(&machine, "io_uring_setup", UAIO_WARN, "sysctl",
	       "io_uring_disabled is 2; filters may");
	machine.uring_disabled = 1;
	machine.nr_filters = 0;
	expect(&machine, "io_uring_setup", UAIO_WARN, "sysctl",
	       "not in kernel.io_uring_group");
	machine.may_ring_when_1 = true;
	expect(&machine, "io_uring_setup", UAIO_WARN, "other", "module");
	expect(&machine, "io_uring", UAIO_PASS, NULL, "uaio run serves it");
}

static void test_quota(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	machine.aio_nr = 65535;
	expect(&machine, "fs.aio-max-nr", UAIO_PASS, NULL, "65535");
	/*
	 * One event of the quota was left, but io_setup() fails, because another
	 * process has just used this event.
	 */
	machine.answers.aio_error = EAGAIN;
	expect(&machine, "fs.aio-max-nr", UAIO_WARN, "quota", "used up");
	/*
	 * Now a filter, not the quota, may have returned EAGAIN. So the finding about
	 * fs.aio-max-nr must report no shortage, and the finding about io_setup must
	 * report the filter.
	 */
	machine.nr_filters = 1;
	machine.answers.errors[UAIO_ANSWER_IO_SETUP] = EAGAIN;
	expect(&machine, "fs.aio-max-nr", UAIO_PASS, NULL, "65535");
	expect(&machine, "io_setup", UAIO_WARN, "seccomp", "EAGAIN");
	machine.aio_max_nr = UAIO_UNKNOWN;
	expect(&machine, "fs.aio-max-nr", UAIO_PASS, NULL, "not known");
}

static void test_limits(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	machine.memlock.rlim_cur = 65536;
	expect(&machine, "memlock", UAIO_PASS, NULL, "64 KiB");
	/*
	 * Linux counts rings against RLIMIT_MEMLOCK before 5.12, and again from 6.14
	 * on.
	 */
	strcpy(machine.name.release, "6.14.0");
	expect(&machine, "memlock", UAIO_PASS, NULL, "about 4 rings of 128");
	machine.is_memlock_exempt = true;
	expect(&machine, "memlock", UAIO_PASS, NULL,
	       "64 KiB (ulimit -l); uaio");
	machine.is_memlock_exempt = false;
	machine.answers.uring_error = ENOMEM;
	expect(&machine, "memlock", UAIO_WARN, "limit", "ENOMEM");
	expect(&machine, "io_uring", UAIO_PASS, NULL, "uaio run serves it");
	machine.nproc.rlim_cur = 255;
	expect(&machine, "nproc", UAIO_WARN, "limit", "255");
	machine.is_nproc_exempt = true;
	expect(&machine, "nproc", UAIO_PASS, NULL, "exempt");
	machine.pids_max = 512;
	machine.pids_current = 220;
	expect(&machine, "pids.max", UAIO_PASS, NULL, "512");
	machine.pids_current = 221;
	expect(&machine, "pids.max", UAIO_WARN, "cgroup", "291");
}

static void test_what_executes_direct_io(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	expect(&machine, "direct I/O", UAIO_PASS, NULL, "own AIO");
	machine.answers.aio_error = EAGAIN;
	expect(&machine, "direct I/O", UAIO_PASS, NULL, "io_uring");
	machine.answers.signals[UAIO_ANSWER_URING_ENTER] = SIGSYS;
	expect(&machine, "direct I/O", UAIO_WARN, "quota", "threads");
}

static void test_who_serves_as_the_environment_sets(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	expect(&machine, "io_uring", UAIO_PASS, NULL, "as it is allowed");
	machine.options[UAIO_OPTION_URING] = UAIO_URING_ALWAYS;
	expect(&machine, "io_uring", UAIO_PASS, NULL,
	       "serves it, as UAIO_URING=always");
	machine.options[UAIO_OPTION_URING] = UAIO_URING_NEVER;
	expect(&machine, "io_uring", UAIO_PASS, NULL,
	       "kernel's own, as UAIO_URING=never");
	machine.answers.errors[UAIO_ANSWER_URING_SETUP] = EPERM;
	expect(&machine, "io_uring", UAIO_FAIL, "option", "not served");

	machine.options[UAIO_OPTION_POSIX] = UAIO_POSIX_OFF;
	expect(&machine, "POSIX AIO", UAIO_PASS, NULL, "UAIO_POSIX=off");

	machine.options[UAIO_OPTION_BACKEND] = UAIO_BACKEND_AIO;
	expect(&machine, "direct I/O", UAIO_PASS, NULL,
	       "own AIO, as UAIO_BACKEND=aio");
	machine.options[UAIO_OPTION_BACKEND] = UAIO_BACKEND_URING;
	expect(&machine, "direct I/O", UAIO_WARN, "option",
	       "UAIO_BACKEND=io_uring is set, which cannot");
	machine.options[UAIO_OPTION_BACKEND] = UAIO_BACKEND_THREADS;
	expect(&machine, "direct I/O", UAIO_WARN, "option",
	       "threads, at about three times the processor time, as "
	       "UAIO_BACKEND=threads");
}

static void test_without_a_child_nothing_is_known(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	for (unsigned i = 0; i < UAIO_NR_ANSWERS; i++)
		machine.answers.errors[i] = UAIO_UNTRIED;
	machine.tries_error = EAGAIN;
	machine.served.is_tried = 0;
	expect(&machine, "calls", UAIO_FAIL, "limit", "EAGAIN");
	expect(&machine, "library", UAIO_FAIL, "limit", "no child");
}

static void test_a_limit_of_file_sizes_is_no_filter(void **state)
{
	struct uaio_machine machine = good();

	(void)state;
	machine.served.doors[UAIO_SERVED_URING].is_served = 0;
	machine.served.doors[UAIO_SERVED_URING].error = ENOMEM;
	expect(&machine, "io_uring", UAIO_FAIL, "other", "ENOMEM");
	machine.fsize.rlim_cur = 4096;
	expect(&machine, "io_uring", UAIO_FAIL, "limit", "ENOMEM");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_good_machine_passes),
		cmocka_unit_test(test_kinds_of_kernels),
		cmocka_unit_test(test_a_kernel_that_is_too_old),
		cmocka_unit_test(test_who_refuses_io_uring),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_what_executes_direct_io),
		cmocka_unit_test(test_who_serves_as_the_environment_sets),
		cmocka_unit_test(test_without_a_child_nothing_is_known),
		cmocka_unit_test(test_a_limit_of_file_sizes_is_no_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
