/* SPDX-License-Identifier: MIT */
/* Checks how much the process uses: descriptors, threads, mappings and memory. */
#include "rings.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"

enum {
	/*
	 * usage may grow in the first scenarios, but not after this many
	 */
	NR_WARM = 4,
	NR_SAMPLES = 1 << 12,
	/*
	 * If a scenario needs more requests at a time than each earlier scenario, the
	 * library's pools grow. They grow by up to 0.8 MiB in the first 50 scenarios,
	 * and then rarely. So check memory only after enough scenarios, and allow a
	 * margin.
	 */
	NR_THIRD_MIN = 32,
	MARGIN_KIB = 1024,
};

struct usage {
	unsigned nr_fds, nr_threads, nr_maps;
};

static unsigned nr_entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned nr = 0;

	require(folder, path);
	while (readdir(folder))
		nr++;
	closedir(folder);
	return nr;
}

/*
 * Return: how many mappings of files the process has; the mappings of rings are among
 * them. Other mappings are not counted: the C library keeps the stacks of ended threads,
 * so their number depends on how many threads there were at a time.
 */
static unsigned nr_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long inode;
	char line[512];
	unsigned nr = 0;

	require(file, "/proc/self/maps");
	while (fgets(line, sizeof(line), file))
		nr += sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1 && inode;
	fclose(file);
	return nr;
}

static struct usage usage_now(void)
{
	return (struct usage){
		.nr_fds = nr_entries("/proc/self/fd"),
		.nr_threads = nr_entries("/proc/self/task"),
		.nr_maps = nr_mappings(),
	};
}

static uint32_t resident_kib(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages;

	require(file && fscanf(file, "%*u %lu", &pages) == 1,
		"/proc/self/statm");
	fclose(file);
	return (uint32_t)(pages * (unsigned long)sysconf(_SC_PAGESIZE) / 1024);
}

static void tell_descriptors(void)
{
	char path[64], target[128];

	for (int fd = 0; fd < NR_DESCRIPTORS; fd++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target) - 1);
		if (len > 0)
			dprintf(2, "  %d: %.*s\n", fd, (int)len, target);
	}
}

static void tell_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		dprintf(2, "  %s", line);
	if (file)
		fclose(file);
}

static unsigned larger(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

/*
 * After each scenario, the process may use no more than after the first few. Closed
 * rings and kernel threads may take a while to disappear, so wait for them.
 */
void check_usage(unsigned nr_worlds)
{
	enum { FDS = 4, THREADS = 4, MAPS = 8, MAX_MS = 30000 };
	static struct usage most;
	struct usage now = usage_now();
	const int64_t deadline = now_ms() + MAX_MS;

	if (nr_worlds <= NR_WARM) {
		most.nr_fds = larger(most.nr_fds, now.nr_fds);
		most.nr_threads = larger(most.nr_threads, now.nr_threads);
		most.nr_maps = larger(most.nr_maps, now.nr_maps);
		return;
	}
	while (now.nr_fds > most.nr_fds + FDS ||
	       now.nr_threads > most.nr_threads + THREADS ||
	       now.nr_maps > most.nr_maps + MAPS) {
		if (now_ms() > deadline) {
			tell_descriptors();
			tell_mappings();
			failed("after world %u there are %u descriptors, %u "
			       "threads and %u mappings of files, after the "
			       "first ones %u, %u and %u",
			       nr_worlds, now.nr_fds, now.nr_threads,
			       now.nr_maps, most.nr_fds, most.nr_threads,
			       most.nr_maps);
		}
		pause_us(1000);
		now = usage_now();
	}
}

/*
 * Resident memory in KiB after every n-th scenario. When the array is full, n doubles,
 * and every other sample is dropped.
 */
static uint32_t samples[NR_SAMPLES];
static unsigned nr_samples, sampled_each = 1;

void sample(unsigned nr_worlds)
{
	if (nr_worlds % sampled_each)
		return;
	if (nr_samples == NR_SAMPLES) {
		nr_samples /= 2;
		sampled_each *= 2;
		for (unsigned i = 0; i < nr_samples; i++)
			samples[i] = samples[2 * i + 1];
	}
	samples[nr_samples++] = resident_kib();
}

static int compare(const void *a, const void *b)
{
	const uint32_t *first = a, *second = b;

	return (*first > *second) - (*first < *second);
}

/* Return: the median of nr samples from `first` on, which this function sorts. */
static uint32_t median(unsigned first, unsigned nr)
{
	if (!nr)
		return 0;
	qsort(&samples[first], nr, sizeof(samples[0]), compare);
	return samples[first + nr / 2];
}

void check_memory(void)
{
	const unsigned third = nr_samples / 3;
	const uint32_t middle = median(third, third);
	const uint32_t last = median(2 * third, third);

	printf("resident: %u KiB in the middle third, %u KiB in the last "
	       "(medians)\n",
	       middle, last);
	/*
	 * With a sanitizer, do not check: the sanitizer reuses freed memory late, so
	 * the process grows.
	 */
	if (!IS_SANITIZED && third >= NR_THIRD_MIN &&
	    last > middle + MARGIN_KIB)
		failed("memory grows: %u KiB are resident in the last third of "
		       "the worlds, %u KiB in the middle one",
		       last, middle);
}
