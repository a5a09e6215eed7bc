/* SPDX-License-Identifier: MIT */
/* Tests reports that are complete, cut, overwritten or repeated */
#undef NDEBUG
#include "tool/check/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tool/tool.h"

#define REPORT                                                         \
	"report\tfreed-in-flight\n"                                    \
	"what\tfree() of memory that READ of fd 5 uses\n"              \
	"thread\t12\tworker\n"                                         \
	"request\tREAD\tfd=5 address=0x1000 bytes=4096\n"              \
	"stack\tnow\n"                                                 \
	"frame\t0x401010\t/bin/program\t0x1010\tdrop+0x10\t-\n"        \
	"frame\t0x7f0010\t/lib/libfoo.so\t0x10\t-\tin foo a b.c:3:7\n" \
	"stack\tsubmitted\n"                                           \
	"frame\t0x402020\t/bin/program\t0x2020\tsubmit+0x20\t-\n"      \
	"end\n"

#define SUMMARY "begun\nsummary\trequests 7\tchecked 5\tby asan\n"

/*
 * A directory with the report files of processes, and the reports found in these files.
 */
struct place {
	char dir[32];
	struct uaio_check_files files;
	unsigned nr, nr_cut;
	/* kinds of all reports found, each followed by a space */
	char kinds[256];
	int pid; /* process id of the last report */
};

static void note(struct uaio_report *report, void *arg)
{
	struct place *place = arg;

	place->nr++;
	place->nr_cut += report->is_cut;
	place->pid = report->pid;
	assert_true(strlen(place->kinds) + strlen(report->kind) + 2 <
		    sizeof(place->kinds));
	strcat(strcat(place->kinds, report->kind), " ");
}

static void open_place(struct place *place)
{
	*place = (struct place){
		.dir = "/tmp/uaio-test-XXXXXX",
		.files = { .report = note, .arg = place },
	};
	assert_non_null(mkdtemp(place->dir));
	assert_int_equal(uaio_check_files_open(&place->files, place->dir), 0);
}

static void close_place(struct place *place)
{
	DIR *dir = opendir(place->dir);
	struct dirent *entry;

	uaio_check_files_close(&place->files);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		(void)unlinkat(dirfd(dir), entry->d_name, 0);
	(void)closedir(dir);
	assert_int_equal(rmdir(place->dir), 0);
}

static void append_bytes(const struct place *place, const char *name,
			 const char *text, size_t len)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", place->dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	(void)close(fd);
}

static void append(const struct place *place, const char *name,
		   const char *text)
{
	append_bytes(place, name, text, strlen(text));
}

static struct uaio_report parsed(const char *text)
{
	struct uaio_report report;

	assert_true(uaio_report_parse(&report, text, strlen(text)));
	return report;
}

/* Reports */

static void each_field_of_a_report_is_taken(void **state)
{
	struct uaio_report report = parsed(REPORT);
	const struct uaio_check_stack *now = &report.stacks[UAIO_CHECK_NOW];

	(void)state;
	assert_false(report.is_cut);
	assert_string_equal(report.kind, "freed-in-flight");
	assert_string_equal(report.what,
			    "free() of memory that READ of fd 5 uses");
	assert_string_equal(report.tid, "12");
	assert_string_equal(report.thread, "worker");
	assert_string_equal(report.request.operation, "READ");
	assert_string_equal(report.request.fields,
			    "fd=5 address=0x1000 bytes=4096");
	assert_null(report.other.operation);
	assert_int_equal(now->nr, 2);
	assert_int_equal(now->frames[0].pc, 0x401010);
	assert_int_equal(now->frames[0].offset, 0x1010);
	assert_string_equal(now->frames[0].module, "/bin/program");
	assert_string_equal(now->frames[0].symbol, "drop+0x10");
	assert_null(now->frames[0].text);
	assert_null(now->frames[1].symbol);
	assert_string_equal(now->frames[1].text, "in foo a b.c:3:7");
	assert_int_equal(report.stacks[UAIO_CHECK_SUBMITTED].nr, 1);
	assert_int_equal(report.stacks[UAIO_CHECK_OTHER].nr, 0);
	uaio_report_free(&report);
}

static void a_report_may_end_at_any_byte(void **state)
{
	const size_t first = strlen("report\tf");

	(void)state;
	for (size_t len = first; len < strlen(REPORT) - 1; len++) {
		struct uaio_report report;

		assert_true(uaio_report_parse(&report, REPORT, len));
		assert_true(report.is_cut);
		uaio_report_free(&report);
	}
}

static void what_is_no_report_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"report",
		"report\n",
		"report\t\n",
		"report\tA b\n",
		"report\tfreed\tin-flight\n",
		"report\t../x\n",
		"end\n",
		"report\taaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
	};
	struct uaio_report report;

	(void)state;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(
			uaio_report_parse(&report, texts[i], strlen(texts[i])));
}

static void what_a_terminal_obeys_is_taken_out(void **state)
{
	static const char text[] = "report\tfreed-in-flight\n"
				   "what\ta\033[2Jb\0c\177d\re\n"
				   "frame\t0x1\n"
				   "stack\tnowhere\nframe\t0x2\n"
				   "stack\nframe\n\nunknown\tfield\nend\n";
	struct uaio_report report;

	(void)state;
	assert_true(uaio_report_parse(&report, text, sizeof(text) - 1));
	assert_string_equal(report.what, "a?[2Jb?c?d?e");
	assert_false(report.is_cut);
	for (unsigned i = 0; i < UAIO_CHECK_NR_STACKS; i++)
		assert_int_equal(report.stacks[i].nr, 0);
	uaio_report_free(&report);
}

static void a_stack_has_a_limit(void **state)
{
	struct uaio_report report;
	char *text;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	(void)state;
	fputs("report\tfreed-in-flight\nstack\tnow\n", to);
	for (int i = 0; i < 10000; i++)
		fputs("frame\t0x1\t/x\t0x1\t-\t-\n", to);
	fputs("end\n", to);
	(void)fclose(to);
	assert_true(uaio_report_parse(&report, text, len));
	assert_int_equal(report.stacks[UAIO_CHECK_NOW].nr,
			 UAIO_CHECK_FRAMES_MAX);
	uaio_report_free(&report);
	free(text);
}

/* Files */

static void each_process_has_its_own_file(void **state)
{
	struct place place;

	(void)state;
	open_place(&place);
	uaio_check_files_read(&place.files, false);
	append(&place, "17", REPORT);
	/*
	 * files.c keeps the processes 1041 and 17 in the same hash bucket, but must not
	 * mix up their reports
	 */
	append(&place, "1041", REPORT REPORT);
	append(&place, "17.changes", REPORT);
	append(&place, "x17", REPORT);
	append(&place, "99999999999", REPORT);
	uaio_check_files_read(&place.files, false);
	assert_int_equal(place.nr, 3);
	uaio_check_files_read(&place.files, true);
	assert_int_equal(place.nr, 3);
	assert_int_equal(place.nr_cut, 0);
	close_place(&place);
}

static void a_report_may_be_read_in_pieces(void **state)
{
	struct place place;

	(void)state;
	open_place(&place);
	for (const char *at = REPORT SUMMARY REPORT; *at; at++) {
		append_bytes(&place, "5", at, 1);
		uaio_check_files_read(&place.files, false);
	}
	assert_int_equal(place.nr, 2);
	assert_int_equal(place.nr_cut, 0);
	assert_int_equal(place.pid, 5);
	assert_int_equal(place.files.sums.nr_processes, 1);
	assert_int_equal(place.files.sums.nr_requests, 7);
	assert_int_equal(place.files.sums.nr_checked, 5);
	assert_string_equal(place.files.sums.checkers, "asan");
	close_place(&place);
}

static void
a_cut_report_is_reported_when_the_next_begins_or_at_the_end(void **state)
{
	struct place place;

	(void)state;
	open_place(&place);
	append(&place, "5", "report\tstack-in-flight\nwhat\tx\n" REPORT);
	append(&place, "5", "report\toverlap-in-flight\nwha");
	uaio_check_files_read(&place.files, false);
	assert_string_equal(place.kinds, "stack-in-flight freed-in-flight ");
	uaio_check_files_read(&place.files, true);
	assert_string_equal(
		place.kinds,
		"stack-in-flight freed-in-flight overlap-in-flight ");
	assert_int_equal(place.nr_cut, 2);
	close_place(&place);
}

static void a_program_may_write_what_it_likes(void **state)
{
	char *zeros = calloc(1, 3 * UAIO_CHECK_REPORT_MAX);
	struct place place;
	char path[64];

	(void)state;
	open_place(&place);
	append(&place, "5",
	       "summary\nsummary\trequests\tby\tx y\t\nend\nend\n");
	append_bytes(&place, "5", zeros, 3 * UAIO_CHECK_REPORT_MAX);
	append(&place, "5", "\n" REPORT "report\taiocb-in-flight\nwhat\t");
	append_bytes(&place, "5", zeros, 3 * UAIO_CHECK_REPORT_MAX);
	append(&place, "5", "\nend\n" REPORT);
	(void)snprintf(path, sizeof(path), "%s/6", place.dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	(void)snprintf(path, sizeof(path), "%s/7", place.dir);
	assert_int_equal(symlink("5", path), 0);
	uaio_check_files_read(&place.files, false);
	uaio_check_files_read(&place.files, true);
	assert_string_equal(place.kinds,
			    "freed-in-flight aiocb-in-flight freed-in-flight ");
	assert_int_equal(place.nr_cut, 1);
	close_place(&place);
	free(zeros);
}

/* Places */

static void a_place_is_its_kind_and_the_innermost_frames(void **state)
{
	static const char *const others[] = {
		"report\tstack-in-flight\nstack\tnow\n"
		"frame\t0x1\t/a\t0x1\t-\t-\nend\n",
		"report\tfreed-in-flight\nstack\tnow\n"
		"frame\t0x1\t/a\t0x2\t-\t-\nend\n",
		"report\tfreed-in-flight\nstack\tnow\n"
		"frame\t0x1\t/b\t0x1\t-\t-\nend\n",
		"report\tfreed-in-flight\nrequest\tREAD\tfd=1\nstack\tnow\n"
		"frame\t0x1\t/a\t0x1\t-\t-\nend\n",
		"report\tfreed-in-flight\nstack\tsubmitted\n"
		"frame\t0x1\t/a\t0x1\t-\t-\nend\n",
		"report\tfreed-in-flight\nstack\tnow\n"
		"frame\t0x1\t/a\t0x1\t-\t-\nframe\t0x1\t/a\t0x5\t-\t-\nend\n",
	};
	struct uaio_check_places places = { 0 };
	struct uaio_report first = parsed("report\tfreed-in-flight\nwhat\tx\n"
					  "stack\tnow\n"
					  "frame\t0x1\t/a\t0x1\t-\t-\nend\n");
	/*
	 * A report with other addresses, but the same offsets in the module, is from
	 * the same place.
	 */
	struct uaio_report same = parsed("report\tfreed-in-flight\nwhat\ty\n"
					 "stack\tnow\n"
					 "frame\t0x9\t/a\t0x1\t-\t-\nend\n");

	(void)state;
	assert_null(
		uaio_check_places_find(&places, uaio_check_place_of(&first)));
	assert_true(
		uaio_check_places_add(&places, uaio_check_place_of(&first), 3));
	assert_int_equal(
		uaio_check_places_find(&places, uaio_check_place_of(&same))
			->verdict,
		3);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct uaio_report other = parsed(others[i]);

		assert_null(uaio_check_places_find(
			&places, uaio_check_place_of(&other)));
		uaio_report_free(&other);
	}
	while (uaio_check_places_add(&places, uaio_check_place_of(&first), 0))
		;
	assert_int_equal(places.nr, UAIO_CHECK_PLACES_MAX);
	uaio_report_free(&first);
	uaio_report_free(&same);
	free(places.all);
}

/* Suppressions */

static int read_suppressions(struct uaio_suppressions *to, const char *text,
			     char message[PATH_MAX])
{
	char path[] = "/tmp/uaio-test-XXXXXX";
	int fd = mkstemp(path), status;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
	uaio_diag_into(message, PATH_MAX);
	status = uaio_suppressions_read(to, path);
	uaio_diag_into(NULL, 0);
	(void)unlink(path);
	return status;
}

static void a_pattern_is_of_a_function_a_file_or_a_module(void **state)
{
	static const struct {
		const char *line;
		bool suppresses;
	} rows[] = {
		{ "freed-in-flight:drop", true },
		{ "freed-in-flight:dr*", true },
		{ "*:drop", true },
		{ "  freed-in-flight:submit  \r", true },
		{ "freed-in-flight:/lib/libfoo.so", true },
		{ "freed-in-flight:libfoo.*", true },
		{ "freed-in-flight:/lib/*", true },
		{ "freed-in-flight:source.c", true },
		{ "freed-in-flight:/src/*", true },
		{ "freed-in-flight:ns::f(int, char)", true },
		{ "stack-in-flight:drop", false },
		{ "freed-in-flight:dro", false },
		{ "freed-in-flight:drop+0x10", false },
		{ "freed-in-flight:libfoo", false },
		{ "freed-in-flight:READ", false },
	};
	struct uaio_report report = parsed(REPORT);
	struct uaio_check_frame *frame =
		&report.stacks[UAIO_CHECK_SUBMITTED].frames[0];

	(void)state;
	frame->lines = calloc(1, sizeof(*frame->lines));
	frame->nr_lines = 1;
	frame->lines[0].function = strdup("ns::f(int, char)");
	frame->lines[0].file = strdup("/src/source.c");
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct uaio_suppressions all = { 0 };
		char message[PATH_MAX];

		assert_int_equal(read_suppressions(&all, rows[i].line, message),
				 0);
		assert_int_equal(uaio_suppressions_find(&all, &report),
				 rows[i].suppresses ? 0 : -1);
		uaio_suppressions_free(&all);
	}
	uaio_report_free(&report);
}

static void a_line_that_can_suppress_nothing_is_refused(void **state)
{
	static const char *const lines[] = {
		"\n# a comment\n\nfreed-in-flight\n",
		"\n\n\nfreed-in-flight:\n",
		"\n\n*:x\nfreed-in-fligth:drop\n",
		"\n\n\n:drop",
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct uaio_suppressions all = { 0 };
		char message[PATH_MAX];

		assert_int_equal(read_suppressions(&all, lines[i], message),
				 EXIT_REFUSED);
		assert_non_null(strstr(message, ":4: "));
		uaio_suppressions_free(&all);
	}
}

static void each_kind_says_what_helps(void **state)
{
	const struct uaio_check_kind *kind;
	unsigned nr = 0;

	(void)state;
	for (; (kind = uaio_check_kind_at(nr)); nr++) {
		assert_true(strlen(kind->name) <= UAIO_CHECK_KIND_MAX);
		assert_ptr_equal(uaio_check_kind_find(kind->name), kind);
		/* the rule names a manual page */
		assert_non_null(strchr(kind->rule, ')'));
		assert_true(*kind->explanation && *kind->now && *kind->help);
	}
	assert_true(nr > 5);
	assert_null(uaio_check_kind_find("freed"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_of_a_report_is_taken),
		cmocka_unit_test(a_report_may_end_at_any_byte),
		cmocka_unit_test(what_is_no_report_is_refused),
		cmocka_unit_test(what_a_terminal_obeys_is_taken_out),
		cmocka_unit_test(a_stack_has_a_limit),
		cmocka_unit_test(each_process_has_its_own_file),
		cmocka_unit_test(a_report_may_be_read_in_pieces),
		cmocka_unit_test(
			a_cut_report_is_reported_when_the_next_begins_or_at_the_end),
		cmocka_unit_test(a_program_may_write_what_it_likes),
		cmocka_unit_test(a_place_is_its_kind_and_the_innermost_frames),
		cmocka_unit_test(a_pattern_is_of_a_function_a_file_or_a_module),
		cmocka_unit_test(a_line_that_can_suppress_nothing_is_refused),
		cmocka_unit_test(each_kind_says_what_helps),
	};

	return cmocka_run_group_tests_name("reports", tests, NULL, NULL);
}
