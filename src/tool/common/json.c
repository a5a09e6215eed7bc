/* SPDX-License-Identifier: MIT */
#include "tool/common/json.h"

/*
 * Return: the length in bytes of the UTF-8 character at text; 0 if it is invalid.
 */
static size_t utf8_length(const unsigned char *text)
{
	size_t nr = *text < 0x80   ? 1
		    : *text < 0xc2 ? 0
		    : *text < 0xe0 ? 2
		    : *text < 0xf0 ? 3
		    : *text < 0xf5 ? 4
				   : 0;

	for (size_t i = 1; i < nr; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return nr;
}

void uaio_json_text(FILE *to, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	if (!text) {
		fputs("null", to);
		return;
	}
	putc('"', to);
	while (*at) {
		size_t nr = utf8_length(at);

		if (!nr) {
			putc('?', to);
			at++;
		} else if (*at < ' ' || *at == 0x7f) {
			fprintf(to, "\\u%04x", *at++);
		} else {
			if (*at == '"' || *at == '\\')
				putc('\\', to);
			at += fwrite(at, 1, nr, to);
		}
	}
	putc('"', to);
}
