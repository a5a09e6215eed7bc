/* SPDX-License-Identifier: MIT */
#include "tool/common/pages.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cycles.h"
#include "live/hist.h"
#include "live/live.h"

enum {
	NS_PER_S = 1000000000,
	/*
	 * Inode number of the initial PID namespace, where all processes are visible.
	 * The highest bit is cleared, so that an enum can hold the number.
	 */
	INIT_NAMESPACE = 0xeffffffc & INT_MAX,
};

static uint64_t now_ns(int clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Return: cycles of uaio_cycles() per millisecond, measured once. */
static uint64_t cycles_per_ms(void)
{
	static const struct timespec while_ = { .tv_nsec = 5000000 };
	static uint64_t rate;
	uint64_t cycles, ns;

	if (rate)
		return rate;
	cycles = uaio_cycles();
	ns = now_ns(CLOCK_MONOTONIC);
	(void)nanosleep(&while_, NULL);
	cycles = uaio_cycles() - cycles;
	ns = now_ns(CLOCK_MONOTONIC) - ns;
	rate = (uint64_t)((double)cycles * 1e6 / (double)ns);
	return rate ? rate : 1;
}

uint64_t uaio_pages_ns(uint64_t cycles)
{
	return (uint64_t)((double)cycles * 1e6 / (double)cycles_per_ms());
}

/* Identifying processes */

static uint64_t namespace_of(const char *process)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/ns/pid", process);
	return stat(path, &st) == 0 ? st.st_ino : 0;
}

/*
 * Find the line of a file in /proc/PID that begins with `name`.
 * Return: the rest of the line; NULL if there is no such line.
 */
static char *find_line(const char *process, const char *file, const char *name,
		       char *buf, size_t len)
{
	char path[64];
	FILE *from;
	char *found = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/%s", process, file);
	from = fopen(path, "re");
	if (!from)
		return NULL;
	while (!found && fgets(buf, (int)len, from))
		if (!strncmp(buf, name, strlen(name)))
			found = buf + strlen(name);
	(void)fclose(from);
	return found;
}

/*
 * line: from /proc/PID/stat.
 * Return: the blank before a field; NULL if there is no such field.
 */
static const char *before_field(const char *line, unsigned number)
{
	/* Field 2, the name, may contain blanks and parentheses: skip it. */
	line = strrchr(line, ')');
	for (unsigned field = 2; line && field < number; field++)
		line = strchr(line + 1, ' ');
	return line;
}

/*
 * Return: whether a process with this id runs, and began before born_ns of
 * CLOCK_BOOTTIME. If it began later, it is another process that got the same id. A
 * zombie has ended, unless it has other threads.
 */
static bool is_running_since(const char *process, uint64_t born_ns)
{
	enum { STATE = 3, NR_THREADS = 20, BEGAN = 22 };
	char buf[1024];
	const char *line = find_line(process, "stat", "", buf, sizeof(buf));
	const char *state = line ? before_field(line, STATE) : NULL;
	const char *nr = line ? before_field(line, NR_THREADS) : NULL;
	const char *began = line ? before_field(line, BEGAN) : NULL;
	uint64_t ticks, per_s = (uint64_t)sysconf(_SC_CLK_TCK);

	if (!state || !nr || !began ||
	    (strchr("ZX", state[1]) && strtoul(nr, NULL, 10) <= 1))
		return false;
	ticks = strtoull(began, NULL, 10);
	return ticks / per_s * NS_PER_S + ticks % per_s * NS_PER_S / per_s <=
	       born_ns;
}

/*
 * Return: whether the process is in the PID namespace with the inode number `namespace`
 * (not in a nested one), and has the id `pid` there.
 */
static bool is_inside(const char *process, int pid, uint64_t namespace)
{
	char buf[256], *at, *last;

	if (namespace_of(process) != namespace)
		return false;
	at = find_line(process, "status", "NSpid:", buf, sizeof(buf));
	last = at ? strrchr(at, '\t') : NULL;
	return last && atoi(last) == pid;
}

/*
 * Find the process that publishes its counts in a page (pages.h). The page has the
 * process's id in the process's own PID namespace.
 * Return: the process's id in this tool's namespace; 0 if it was not found.
 */
static int find_elsewhere(const struct uaio_live_identity *identity)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	int pid = 0;

	while (dir && !pid && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    is_inside(entry->d_name, identity->pid,
			      identity->pid_namespace) &&
		    is_running_since(entry->d_name, identity->born_ns))
			pid = atoi(entry->d_name);
	if (dir)
		(void)closedir(dir);
	return pid;
}

/*
 * Return: whether the process may be running where this tool cannot see it: in a PID
 * namespace that is not nested in the tool's.
 */
static bool is_out_of_sight(const struct uaio_live_identity *identity)
{
	uint64_t mine = namespace_of("self");

	return identity->pid_namespace != mine &&
	       (mine & INT_MAX) != INIT_NAMESPACE;
}

static void find_process(struct uaio_page *page)
{
	const struct uaio_live_identity *identity = &page->identity;
	char name[16];

	page->pid = identity->pid;
	if (identity->state == UAIO_LIVE_LEAVING)
		return;
	if (identity->pid_namespace == namespace_of("self")) {
		(void)snprintf(name, sizeof(name), "%d", identity->pid);
		page->is_running = is_running_since(name, identity->born_ns);
		return;
	}
	page->pid = find_elsewhere(identity);
	page->is_running = page->pid || is_out_of_sight(identity);
	if (!page->pid)
		page->pid = identity->pid;
}

/* Reading counts */

static void add_stays(struct uaio_live_stays *sum,
		      const struct uaio_live_stays *stays)
{
	for (unsigned i = 0; i < UAIO_LIVE_STAYS; i++) {
		sum->nr_begun[i] += stays->nr_begun[i];
		sum->nr_ended[i] += stays->nr_ended[i];
	}
}

/* Return: left - right; 0 if negative, because counts may change between two reads. */
static uint64_t difference(uint64_t left, uint64_t right)
{
	/*
	 * Any process of the user may write any numbers to the page, so the sums may
	 * have overflowed. Unsigned numbers wrap around, so left - right is defined
	 * even then.
	 */
	return (int64_t)(left - right) > 0 ? left - right : 0;
}

static void find_stays(struct uaio_page *page,
		       const struct uaio_live_stays *sum)
{
	uint64_t nr = 0;

	/* Only a running process has requests in flight. */
	for (unsigned i = 0; page->is_running && i < page->identity.nr_stays;
	     i++) {
		page->nr_there[i] =
			difference(sum->nr_begun[i], sum->nr_ended[i]);
		nr += page->nr_there[i];
	}
	if (page->is_running)
		page->nr_executing = difference(page->nr_in_flight, nr);
}

uint64_t uaio_page_there(const struct uaio_page *page, const char *name)
{
	for (unsigned i = 0; i < page->identity.nr_stays; i++)
		if (!strcmp(page->names.stays[i], name))
			return page->nr_there[i];
	return 0;
}

static void add_block(struct uaio_page *page, struct uaio_hist *hists,
		      const struct uaio_live_block *block)
{
	const struct uaio_live_identity *identity = &page->identity;

	page->nr_completed += block->nr_completed;
	page->nr_submits += block->nr_submits;
	page->nr_sampled += block->nr_sampled;
	for (unsigned op = 0; op < identity->nr_ops; op++)
		for (unsigned way = 0; way < identity->nr_ways; way++)
			page->nr_by_way[op][way] += block->nr_accepted[op][way];
	for (unsigned i = 0; i < UAIO_LIVE_DIRECTS; i++)
		page->nr_direct[i] += block->nr_direct[i];
	for (unsigned i = 0; i < UAIO_LIVE_FAULTS; i++)
		page->nr_faults[i] += block->nr_faults[i];
	for (unsigned i = 0; i < UAIO_LIVE_TIMES + 1; i++)
		uaio_hist_add(&hists[i], &block->hists[i]);
}

/*
 * Return: whether `name` names a time that requests wait. Inline requests (executed
 * inside the submitting call) do not wait.
 */
static bool is_wait(const char *name)
{
	return strstr(name, "wait");
}

static void sum_up(struct uaio_page *page, struct uaio_hist *hists)
{
	const struct uaio_live_identity *identity = &page->identity;

	for (unsigned op = 0; op < identity->nr_ops; op++) {
		/*
		 * Index 0 of nr_by_way[op] is inline execution. The process counts an
		 * inline request only as accepted, so count it as completed here.
		 */
		page->nr_completed += page->nr_by_way[op][0];
		for (unsigned way = 0; way < identity->nr_ways; way++)
			page->nr_accepted += page->nr_by_way[op][way];
	}
	page->nr_in_flight = difference(page->nr_accepted, page->nr_completed);
	for (unsigned i = 0; i < identity->nr_times; i++) {
		struct uaio_page_time *time = &page->times[i];

		if (!is_wait(page->names.times[i]))
			uaio_hist_add(&hists[i], &hists[identity->nr_times]);
		if (!strcmp(page->names.times[i], "total"))
			page->total = hists[i];
		time->nr = uaio_hist_nr(&hists[i]);
		if (!time->nr)
			continue;
		time->p50 = uaio_pages_ns(
			uaio_hist_quantile(&hists[i], time->nr, 500));
		time->p99 = uaio_pages_ns(
			uaio_hist_quantile(&hists[i], time->nr, 990));
		time->p999 = uaio_pages_ns(
			uaio_hist_quantile(&hists[i], time->nr, 999));
		time->max = uaio_pages_ns(hists[i].max);
	}
}

static void read_blocks(struct uaio_page *page, int fd)
{
	static struct uaio_hist hists[UAIO_LIVE_TIMES + 1];
	static struct uaio_live_block block;
	struct uaio_live_stays stays = page->gauges.stays;

	memset(hists, 0, sizeof(hists));
	for (unsigned i = 0; i < UAIO_LIVE_BLOCKS; i++) {
		off_t at =
			UAIO_LIVE_BLOCKS_AT + (off_t)i * UAIO_LIVE_BLOCK_BYTES;

		if (pread(fd, &block, sizeof(block), at) != sizeof(block))
			break;
		if (!block.pid)
			continue;
		add_block(page, hists, &block);
		add_stays(&stays, &block.stays);
	}
	sum_up(page, hists);
	find_stays(page, &stays);
}

/*
 * The user's processes may write any bytes as names. Replace the bytes that could
 * disturb a terminal or a JSON string.
 */
static void clean_names(struct uaio_page *page)
{
	char *names = (char *)&page->names;

	for (size_t i = 0; i < sizeof(page->names); i++)
		if (i % UAIO_LIVE_NAME == UAIO_LIVE_NAME - 1)
			names[i] = '\0';
		else if (names[i] && !isalnum((unsigned char)names[i]) &&
			 names[i] != '_')
			names[i] = '_';
	page->identity.comm[UAIO_LIVE_NAME - 1] = '\0';
	for (char *c = page->identity.comm; *c; c++)
		if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\' ||
		    (unsigned char)*c >= 0x7f)
			*c = '?';
}

static bool is_known(const struct uaio_live_identity *identity)
{
	return !memcmp(identity->magic, UAIO_LIVE_MAGIC,
		       sizeof(identity->magic)) &&
	       identity->version == UAIO_LIVE_VERSION &&
	       identity->block_bytes == sizeof(struct uaio_live_block) &&
	       identity->nr_ops <= UAIO_LIVE_OPS &&
	       identity->nr_ways <= UAIO_LIVE_WAYS &&
	       identity->nr_times <= UAIO_LIVE_TIMES &&
	       identity->nr_directs <= UAIO_LIVE_DIRECTS &&
	       identity->nr_faults <= UAIO_LIVE_FAULTS &&
	       identity->nr_stays <= UAIO_LIVE_STAYS;
}

/*
 * Read the page (pages.h) in the file fd into *page.
 * Return: whether the page is complete and of this version of the library and, if
 * is_of_running is set, its process runs. *ret_is_foreign: whether another version of
 * the library wrote it.
 */
static bool read_page(struct uaio_page *page, int fd, bool is_of_running,
		      bool *ret_is_foreign)
{
	const struct uaio_live_page *map =
		mmap(NULL, sizeof(*map), PROT_READ, MAP_SHARED, fd, 0);
	bool is_ready;

	if (map == MAP_FAILED)
		return false;
	is_ready = uaio_live_is_ready(map);
	if (is_ready) {
		page->identity = map->identity;
		page->gauges = map->gauges;
		page->names = map->names;
	}
	(void)munmap((void *)(uintptr_t)map, sizeof(*map));
	*ret_is_foreign = is_ready && !is_known(&page->identity);
	if (!is_ready || *ret_is_foreign)
		return false;
	clean_names(page);
	find_process(page);
	if (is_of_running && !page->is_running)
		return false;
	read_blocks(page, fd);
	return true;
}

/* Finding pages */

static struct uaio_page *add_page(struct uaio_pages *pages)
{
	if (pages->nr == pages->nr_room) {
		unsigned room = pages->nr_room ? 2 * pages->nr_room : 16;
		void *more =
			realloc(pages->pages, room * sizeof(*pages->pages));

		if (!more)
			return NULL;
		pages->pages = more;
		pages->nr_room = room;
	}
	memset(&pages->pages[pages->nr], 0, sizeof(*pages->pages));
	return &pages->pages[pages->nr];
}

static int read_file(struct uaio_pages *pages, const char *path, uid_t uid)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct uaio_page *page = NULL;
	bool is_foreign = false;
	struct stat st;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == uid &&
	    st.st_size >= UAIO_LIVE_BLOCKS_AT) {
		page = add_page(pages);
		if (page &&
		    read_page(page, fd, pages->is_of_running, &is_foreign)) {
			(void)snprintf(page->path, sizeof(page->path), "%s",
				       path);
			pages->nr++;
		}
		pages->nr_foreign += is_foreign;
		if (!page) {
			(void)close(fd);
			return -ENOMEM;
		}
	}
	(void)close(fd);
	return 0;
}

static int read_folder(struct uaio_pages *pages, const char *path, uid_t uid)
{
	char file[PATH_MAX];
	const struct dirent *entry;
	struct stat st;
	DIR *dir;
	int ret = 0;

	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != uid ||
	    st.st_mode & 077)
		return 0;
	dir = opendir(path);
	while (dir && !ret && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) <
			    (int)sizeof(file))
			ret = read_file(pages, file, uid);
	if (dir)
		(void)closedir(dir);
	return ret;
}

/* Read all users' pages in one /dev/shm: this tool's or a container's. */
static int read_memory(struct uaio_pages *pages, const char *path)
{
	char folder[PATH_MAX];
	const struct dirent *entry;
	DIR *dir = opendir(path);
	int ret = 0;

	while (dir && !ret && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "uaio.", 5) &&
		    isdigit((unsigned char)entry->d_name[5]) &&
		    snprintf(folder, sizeof(folder), "%s/%s", path,
			     entry->d_name) < (int)sizeof(folder))
			ret = read_folder(
				pages, folder,
				(uid_t)strtoul(entry->d_name + 5, NULL, 10));
	if (dir)
		(void)closedir(dir);
	return ret;
}

/*
 * Several paths may lead to the same /dev/shm. So remember the device of each /dev/shm
 * that was read.
 */
struct seen {
	unsigned nr;
	dev_t devs[256];
};

static bool is_new(struct seen *seen, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	for (unsigned i = 0; i < seen->nr; i++)
		if (seen->devs[i] == st.st_dev)
			return false;
	if (seen->nr == sizeof(seen->devs) / sizeof(seen->devs[0]))
		return false;
	seen->devs[seen->nr++] = st.st_dev;
	return true;
}

/*
 * For qsort(): running processes, then ended ones. In each of these groups the newest
 * process is last.
 */
static int compare(const void *a, const void *b)
{
	const struct uaio_page *pages[] = { a, b };
	uint64_t born[2];

	if (pages[0]->is_running != pages[1]->is_running)
		return pages[0]->is_running ? -1 : 1;
	for (unsigned i = 0; i < 2; i++)
		born[i] = pages[i]->identity.born_real_ns;
	return (born[0] > born[1]) - (born[0] < born[1]);
}

int uaio_pages_read(struct uaio_pages *ret, bool is_of_running)
{
	struct seen seen = { 0 };
	const struct dirent *entry;
	char path[64];
	DIR *dir;
	int error = 0;

	*ret = (struct uaio_pages){ .is_of_running = is_of_running };
	if (is_new(&seen, "/dev/shm"))
		error = read_memory(ret, "/dev/shm");
	dir = opendir("/proc");
	while (dir && !error && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%.16s/root/dev/shm",
			       entry->d_name);
		if (is_new(&seen, path))
			error = read_memory(ret, path);
	}
	if (dir)
		(void)closedir(dir);
	if (ret->nr)
		qsort(ret->pages, ret->nr, sizeof(*ret->pages), compare);
	return error;
}

void uaio_pages_free(struct uaio_pages *pages)
{
	free(pages->pages);
	*pages = (struct uaio_pages){ 0 };
}

static void write_word(const struct uaio_page *page, size_t at, uint64_t word)
{
	int fd = open(page->path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!pwrite(fd, &word, sizeof(word), (off_t)at);
	(void)close(fd);
}

void uaio_page_seen(const struct uaio_page *page)
{
	const uint64_t hour_ns = 3600ull * NS_PER_S;
	uint64_t now = now_ns(CLOCK_REALTIME);

	if (page->is_running)
		return;
	if (page->identity.read_ns) {
		if (now - page->identity.read_ns >= hour_ns)
			(void)unlink(page->path);
		return;
	}
	write_word(page, offsetof(struct uaio_live_page, identity.read_ns),
		   now);
}

void uaio_page_time_all(const struct uaio_page *page, uint64_t ns)
{
	uint64_t until = uaio_cycles() +
			 (uint64_t)((double)ns / 1e6 * (double)cycles_per_ms());

	write_word(page, offsetof(struct uaio_live_page, control.timed_until),
		   until);
}

int uaio_pages_pid(const char *text)
{
	char *end;
	long pid = strtol(text, &end, 10);

	return !*text || *end || pid <= 0 || pid > INT32_MAX ? -1 : (int)pid;
}
