/* SPDX-License-Identifier: MIT */
#include "tool/check/changes.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "options/faults.h"

/* Separators between the faults of a --fault text, as in uaio_faults_parse(). */
#define SEPARATORS "; \t\n"

static const char suffix[] = ".changes";

/* Reading */

/* Return: whether text is a number from 1 to max. */
static bool read_number(const char *text, uint64_t max, uint64_t *ret)
{
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return !errno && !*end && *ret && *ret <= max;
}

/*
 * Split the line at its tabs.
 * Return: whether the line describes a change that a fault has made to a request.
 */
static bool split(char *line, struct uaio_change *ret)
{
	const char *first = strsep(&line, "\t");
	const char *fault = strsep(&line, "\t");
	const char *number = strsep(&line, "\t");
	uint64_t place;

	if (strcmp(first, "change") ||
	    !read_number(fault, UAIO_FAULTS_MAX, &place) ||
	    !read_number(number, UINT64_MAX, &ret->number))
		return false;
	ret->fault = (unsigned)place - 1;
	ret->kind = strsep(&line, "\t");
	ret->value = strsep(&line, "\t");
	ret->operation = strsep(&line, "\t");
	ret->fd = strsep(&line, "\t");
	ret->path = line;
	return ret->path;
}

int uaio_changes_add(struct uaio_changes *changes, int pid, const char *line)
{
	enum { CHUNK = 256 };
	struct uaio_change change = { .pid = pid, .line = strdup(line) };

	if (change.line && !split(change.line, &change)) {
		free(change.line);
		return -EINVAL;
	}
	if (change.line && changes->nr % CHUNK == 0) {
		/*
		 * The multiplication cannot overflow: memory cannot hold that many
		 * lines.
		 */
		void *all =
			realloc(changes->all,
				(changes->nr + CHUNK) * sizeof(*changes->all));

		if (!all) {
			free(change.line);
			return -ENOMEM;
		}
		changes->all = all;
	}
	if (!change.line)
		return -ENOMEM;
	changes->all[changes->nr++] = change;
	return 0;
}

static int read_file(const char *path, int pid, struct uaio_changes *changes)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t len;
	int ret = file ? 0 : -errno;

	while (ret != -ENOMEM && file &&
	       (len = getline(&line, &room, file)) > 0) {
		/*
		 * Skip a last line without a newline: a killed process did not write
		 * all of it.
		 */
		if (line[len - 1] != '\n')
			break;
		line[len - 1] = '\0';
		ret = uaio_changes_add(changes, pid, line);
	}
	free(line);
	if (file)
		fclose(file);
	return ret == -EINVAL ? 0 : ret;
}

int uaio_changes_read(const char *directory, struct uaio_changes *ret)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	int r = dir ? 0 : -errno;

	*ret = (struct uaio_changes){ .nr = 0 };
	while (!r && (entry = readdir(dir))) {
		const char *end = strchr(entry->d_name, '.');
		char *path;

		if (!end || strcmp(end, suffix))
			continue;
		if (asprintf(&path, "%s/%s", directory, entry->d_name) < 0) {
			r = -ENOMEM;
			break;
		}
		r = read_file(path, atoi(entry->d_name), ret);
		free(path);
	}
	if (dir)
		closedir(dir);
	if (r)
		uaio_changes_free(ret);
	else
		uaio_changes_sort(ret);
	return r;
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int compare(const void *a, const void *b)
{
	const struct uaio_change *first = a, *second = b;
	int ret = COMPARE(first->fault, second->fault);

	if (!ret)
		ret = COMPARE(first->number, second->number);
	return ret ? ret : COMPARE(first->pid, second->pid);
}

void uaio_changes_sort(struct uaio_changes *changes)
{
	if (changes->nr)
		qsort(changes->all, changes->nr, sizeof(*changes->all),
		      compare);
}

static void free_change(const struct uaio_change *change)
{
	free(change->line);
	free(change->stack);
}

void uaio_changes_free(struct uaio_changes *changes)
{
	for (size_t i = 0; i < changes->nr; i++)
		free_change(&changes->all[i]);
	free(changes->all);
	*changes = (struct uaio_changes){ .nr = 0 };
}

void uaio_changes_unite(struct uaio_changes *changes)
{
	size_t nr = 0;

	for (size_t i = 0; i < changes->nr; i++) {
		const struct uaio_change *change = &changes->all[i];
		const struct uaio_change *last = &changes->all[nr ? nr - 1 : 0];

		if (nr && change->fault == last->fault &&
		    change->number == last->number)
			free_change(change);
		else
			changes->all[nr++] = *change;
	}
	changes->nr = nr;
}

/* Sentences */

void uaio_change_print(FILE *to, const struct uaio_change *change)
{
	fprintf(to, "%s of request %" PRIu64 ", %s", change->kind,
		change->number, change->operation);
	if (strcmp(change->fd, "-"))
		fprintf(to, " on descriptor %s", change->fd);
	if (strcmp(change->path, "-"))
		fprintf(to, " (%s)", change->path);
	if (!strcmp(change->kind, uaio_fault_names[UAIO_FAULT_ERROR]))
		fprintf(to, ": it ends with %s", change->value);
	else if (!strcmp(change->kind, uaio_fault_names[UAIO_FAULT_SHORT]))
		fprintf(to, ": it moves %s bytes", change->value);
	else
		fprintf(to, ": it %s %.3f ms late",
			strcmp(change->kind, uaio_fault_names[UAIO_FAULT_DEFER])
				? "completes"
				: "begins",
			strtod(change->value, NULL) / 1e6);
}

/* Texts for --fault */

/*
 * Move *text past its first fault.
 * Return: the start of this fault, and its length in *ret_len; NULL if there is no
 * fault.
 */
static const char *take_fault(const char **text, size_t *ret_len)
{
	const char *at = *text + strspn(*text, SEPARATORS);

	*ret_len = strcspn(at, SEPARATORS);
	*text = at + *ret_len;
	return *ret_len ? at : NULL;
}

/*
 * A fault's keys can limit the fault to some request numbers.
 * Return: whether `key` limits the numbers; false for the key `only`, which is treated
 * separately.
 */
static bool does_choose(const char *key)
{
	static const char *const keys[] = { "p=", "after=", "every=",
					    "count=" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strncmp(key, keys[i], strlen(keys[i])))
			return true;
	return false;
}

/*
 * Which requests a fault changes when it is repeated. ALL: the requests that the
 * fault's own keys choose. CHOSEN: those of ALL that are also in the list `only` of the
 * new --fault text. EXACT: all requests in that list.
 */
enum extent { ALL, CHOSEN, EXACT };

/*
 * Return: whether to copy a key of a fault. The seed and the list of numbers (`only`)
 * are written separately. For EXACT, leave out the keys that choose requests, because
 * `only` lists all of them.
 */
static bool is_kept(const char *key, enum extent extent)
{
	if (!strncmp(key, "seed=", strlen("seed=")))
		return false;
	if (!strncmp(key, "only=", strlen("only=")))
		return extent == ALL;
	return extent != EXACT || !does_choose(key);
}

/*
 * Write a fault, with the keys for which is_kept() returns true; the seed comes last.
 */
static void write_fault(FILE *to, const char *fault, size_t len, uint64_t seed,
			enum extent extent)
{
	const char *end = fault + len, *keys = memchr(fault, '@', len);
	size_t key_len;
	char before = '@';

	if (ftello(to))
		putc(' ', to);
	fprintf(to, "%.*s", (int)((keys ? keys : end) - fault), fault);
	for (; keys && keys < end; keys += 1 + key_len) {
		key_len = strcspn(keys + 1, "," SEPARATORS);
		if (!is_kept(keys + 1, extent))
			continue;
		fprintf(to, "%c%.*s", before, (int)key_len, keys + 1);
		before = ',';
	}
	fprintf(to, "%cseed=%" PRIu64, before, seed);
}

int uaio_faults_seeded(const char *text, uint64_t seed, char **ret)
{
	size_t room, len;
	FILE *to = open_memstream(ret, &room);
	const char *fault;

	while (to && (fault = take_fault(&text, &len)))
		write_fault(to, fault, len, seed, ALL);
	return to && !fclose(to) ? 0 : -ENOMEM;
}

/*
 * A list of request numbers has ranges, such as 3-8. The current range ends with the
 * number of change `before`. joins_next: a range may contain only numbers of changed
 * requests.
 * Return: whether to extend the range to the number of change `next`.
 */
static bool continues(const struct uaio_changes *changes, size_t before,
		      size_t next, bool joins_next)
{
	const struct uaio_change *first = &changes->all[before],
				 *second = &changes->all[next];

	/*
	 * The two changes are adjacent in the sorted array, and belong to the same
	 * fault. So no other change lies between them, and the extended range adds only
	 * the change `next`.
	 */
	return next == before + 1 && first->fault == second->fault &&
	       (!joins_next || second->number == first->number + 1);
}

/*
 * Of the changes in `items`, write the request numbers of those that belong to `fault`,
 * as numbers and ranges.
 * Return: how many numbers and ranges were written.
 */
static size_t write_only(FILE *to, unsigned fault,
			 const struct uaio_changes *changes,
			 const size_t *items, size_t nr, bool joins_next)
{
	size_t nr_ranges = 0, i = 0;

	while (i < nr && changes->all[items[i]].fault < fault)
		i++;
	while (i < nr && changes->all[items[i]].fault == fault) {
		uint64_t first = changes->all[items[i]].number, last;

		while (i + 1 < nr &&
		       continues(changes, items[i], items[i + 1], joins_next))
			i++;
		last = changes->all[items[i++]].number;
		fprintf(to, "%s%" PRIu64, nr_ranges ? "+" : ",only=", first);
		if (last > first)
			fprintf(to, "-%" PRIu64, last);
		nr_ranges++;
	}
	return nr_ranges;
}

static bool has_item(unsigned fault, const struct uaio_changes *changes,
		     const size_t *items, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (changes->all[items[i]].fault == fault)
			return true;
	return false;
}

int uaio_faults_chosen(const char *text, uint64_t seed,
		       const struct uaio_changes *changes, const size_t *items,
		       size_t nr, bool is_exact, char **ret)
{
	size_t room, len, nr_ranges = 0;
	FILE *to = open_memstream(ret, &room);
	const char *fault;
	/*
	 * If false, a range may also contain numbers of unchanged requests, because the
	 * fault's other keys exclude these requests again.
	 */
	bool joins_next = is_exact || strstr(text, "only=");

	for (unsigned i = 0; to && (fault = take_fault(&text, &len)); i++) {
		if (!has_item(i, changes, items, nr))
			continue;
		write_fault(to, fault, len, seed, is_exact ? EXACT : CHOSEN);
		nr_ranges += write_only(to, i, changes, items, nr, joins_next);
	}
	if (!to || fclose(to))
		return -ENOMEM;
	if (nr_ranges <= UAIO_FAULT_RANGES_MAX)
		return 0;
	free(*ret);
	return -E2BIG;
}
