/* SPDX-License-Identifier: MIT */
#include "tool/doctor/machine.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/common/children.h"
#include "tool/common/library.h"
#include "tool/tool.h"

/* Return: the number that the file contains, or UAIO_UNKNOWN. */
static long long read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	long long number;

	if (!file)
		return UAIO_UNKNOWN;
	if (fscanf(file, "%lld", &number) != 1)
		number = UAIO_UNKNOWN;
	(void)fclose(file);
	return number;
}

/* Return: whether this process has the capability. */
static bool has_capability(unsigned capability)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long set = 0;
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &set) == 1)
			break;
	(void)fclose(file);
	return set >> capability & 1;
}

/* Return: whether this process is in the group with that id. */
static bool is_in_group(long long group)
{
	gid_t groups[1024];
	int nr = getgroups(sizeof(groups) / sizeof(groups[0]), groups);

	for (int i = 0; i < nr; i++)
		if (groups[i] == (gid_t)group)
			return true;
	return group >= 0 && getegid() == (gid_t)group;
}

static long long count_open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	/* not counted: ".", ".." and the descriptor of this directory */
	long long nr = -3;

	if (!dir)
		return UAIO_UNKNOWN;
	while (readdir(dir))
		nr++;
	(void)closedir(dir);
	return nr;
}

static void read_name(struct uaio_machine *machine)
{
	FILE *file = fopen("/proc/sys/kernel/arch", "re");

	(void)uname(&machine->name);
	if (!file)
		return;
	if (fscanf(file, "%31s", machine->arch) != 1)
		machine->arch[0] = '\0';
	(void)fclose(file);
}

static void read_calls(struct uaio_machine *machine)
{
	machine->nr_filters = uaio_calls_nr_filters();
	machine->tries_error = -uaio_answers_read(&machine->answers);
	machine->has_allowed = uaio_sandbox_try(&machine->allowed) == 0;
}

static void read_sysctl(struct uaio_machine *machine)
{
	/*
	 * If the library is preloaded into this process, it supplies its own numbers
	 * for these files. The library does not recognise a path with a doubled slash,
	 * so the kernel supplies the numbers.
	 */
	machine->aio_nr = read_number("/proc/sys//fs/aio-nr");
	machine->aio_max_nr = read_number("/proc/sys//fs/aio-max-nr");
	machine->uring_disabled =
		read_number("/proc/sys/kernel/io_uring_disabled");
	machine->may_ring_when_1 =
		has_capability(CAP_SYS_ADMIN) ||
		is_in_group(read_number("/proc/sys/kernel/io_uring_group"));
}

static void read_limits(struct uaio_machine *machine)
{
	(void)getrlimit(RLIMIT_MEMLOCK, &machine->memlock);
	(void)getrlimit(RLIMIT_NOFILE, &machine->nofile);
	(void)getrlimit(RLIMIT_NPROC, &machine->nproc);
	(void)getrlimit(RLIMIT_FSIZE, &machine->fsize);
	machine->is_memlock_exempt = has_capability(CAP_IPC_LOCK);
	machine->is_nproc_exempt = getuid() == 0 ||
				   has_capability(CAP_SYS_RESOURCE) ||
				   has_capability(CAP_SYS_ADMIN);
	machine->nr_open_files = count_open_files();
	uaio_cgroups_least("pids", "pids.max", "pids.current",
			   &machine->pids_max, &machine->pids_current);
	/* Version 1 of control groups has other names for these limits. */
	if (!uaio_cgroups_least("memory", "memory.max", "memory.current",
				&machine->memory_max, &machine->memory_current))
		(void)uaio_cgroups_least("memory", "memory.limit_in_bytes",
					 "memory.usage_in_bytes",
					 &machine->memory_max,
					 &machine->memory_current);
}

static void read_library(struct uaio_machine *machine)
{
	uaio_diag_into(machine->complaint, sizeof(machine->complaint));
	if (uaio_library_find(machine->library))
		machine->library[0] = '\0';
	uaio_diag_into(NULL, 0);
	if (!machine->library[0])
		return;
	/*
	 * uaio_sandbox_set_variable() sets the variable that tells the library which
	 * system calls it may make.
	 */
	(void)uaio_sandbox_set_variable();
	(void)uaio_served_read(machine->library, &machine->served);
}

static void read_options(struct uaio_machine *machine)
{
	for (int id = 0; id < UAIO_NR_OPTIONS; id++) {
		const char *text = getenv(uaio_options[id].variable);

		if (text)
			(void)uaio_option_parse(&uaio_options[id], text,
						&machine->options[id]);
	}
}

void uaio_machine_read(struct uaio_machine *ret_machine)
{
	memset(ret_machine, 0, sizeof(*ret_machine));
	read_name(ret_machine);
	read_calls(ret_machine);
	read_sysctl(ret_machine);
	read_limits(ret_machine);
	read_options(ret_machine);
	read_library(ret_machine);
}
