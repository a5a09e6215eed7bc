/* SPDX-License-Identifier: MIT */
/* Checks how much the process uses: descriptors, threads, mappings and memory. */
#include "rings.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"

enum {
	/*
	 * usage may grow in the first worlds (scenarios), but not after this many
	 */
	NR_WARM = 4,
	NR_SAMPLES = 1 << 12,
	MARGIN_KIB = 512,
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

static unsigned nr_lines(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned nr = 0;
	int c;

	require(file, path);
	while ((c = getc(file)) != EOF)
		nr += c == '\n';
	fclose(file);
	return nr;
}

static struct usage usage_now(void)
{
	return (struct usage){
		.nr_fds = nr_entries("/proc/self/fd"),
		.nr_threads = nr_entries("/proc/self/task"),
		.nr_maps = nr_lines("/proc/self/maps"),
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

static unsigned larger(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

/*
 * After each world, the process may use no more than after the first few. Closed rings
 * and kernel threads may take a while to disappear, so wait for them.
 */
void check_usage(unsigned nr_worlds)
{
	enum { FDS = 4, THREADS = 4, MAPS = 32, MAX_MS = 30000 };
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
			failed("after world %u there are %u descriptors, %u "
			       "threads and %u mappings, after the first ones "
			       "%u, %u and %u",
			       nr_worlds, now.nr_fds, now.nr_threads,
			       now.nr_maps, most.nr_fds, most.nr_threads,
			       most.nr_maps);
		}
		pause_us(1000);
		now = usage_now();
	}
}

/*
 * Resident memory in KiB after every n-th world. When the array is full, n doubles, and
 * every other sample is dropped.
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

static uint32_t most_between(unsigned first, unsigned end)
{
	uint32_t most = 0;

	for (unsigned i = first; i < end; i++)
		most = larger(most, samples[i]);
	return most;
}

void check_memory(void)
{
	const unsigned third = nr_samples / 3;
	const uint32_t middle = most_between(third, 2 * third);
	const uint32_t last = most_between(2 * third, nr_samples);

	printf("resident: %u KiB at most in the middle third, %u KiB in the "
	       "last\n",
	       middle, last);
	/*
	 * With a sanitizer, do not check: the sanitizer reuses freed memory late, so
	 * the process grows.
	 */
	if (!IS_SANITIZED && third >= NR_WARM && last > middle + MARGIN_KIB)
		failed("memory grows: %u KiB are resident in the last third of "
		       "the worlds, %u KiB in the middle one",
		       last, middle);
}
