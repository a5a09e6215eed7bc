/* SPDX-License-Identifier: MIT */
/*
 * Writing strings as JSON
 *
 * Tested by test/run/doctor.py and test/run/check.py.
 */
#ifndef UAIO_TOOL_COMMON_JSON_H
#define UAIO_TOOL_COMMON_JSON_H

#include <stdio.h>

/*
 * Write the text as a JSON string; NULL as null. Bytes that are not UTF-8, as in some
 * file names, become '?'.
 */
void uaio_json_text(FILE *to, const char *text);

#endif /* UAIO_TOOL_COMMON_JSON_H */
