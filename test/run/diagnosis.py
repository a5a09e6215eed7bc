# SPDX-License-Identifier: MIT
"""What the tests of `uaio doctor` share."""
import json
import os
import tempfile

from harness import expect

LEVELS = ["PASS", "WARN", "FAIL"]


class Report:
    def __init__(self, tool, outcome):
        import jsonschema  # not every machine that only builds has it

        if outcome.err:
            raise AssertionError(f"a message:\n{outcome.story}")
        try:
            self.object = json.loads(outcome.out)
        except ValueError:
            raise AssertionError(f"no JSON:\n{outcome.story}") from None
        with open(tool.args.doctor_schema) as file:
            jsonschema.Draft7Validator(json.load(file)).validate(self.object)
        self.findings = self.object["findings"]
        levels = {finding["level"] for finding in self.findings}
        worst = max(levels, key=LEVELS.index)
        expect(self.object["level"], worst, "level")
        expect(outcome.status, LEVELS.index(worst), "status")
        for finding in self.findings:
            passed = finding["level"] == "PASS"
            expect((finding["fix"] is None, finding["cause"] is None),
                   (passed, passed), f"fix and cause of {finding}")

    def of(self, subject, section=None):
        found = [finding for finding in self.findings
                 if finding["subject"] == subject
                 and finding["section"] in (section, "machine", "uaio")[
                     :1 if section else None]]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} findings of {subject} in "
                                 f"{self.findings}")
        return found[0]

    def expect(self, subject, level, cause=None, errno=None, words="",
               section=None):
        """Check a finding of uaio doctor, about an argument or about the machine and
        uaio."""
        found = self.of(subject, section)
        expect((found["level"], found["cause"], found["errno"]),
               (level, cause, errno), f"{subject}: {found}")
        if words not in found["text"]:
            raise AssertionError(f"no {words!r} in {found}")
        return self


def doctor(tool, *arguments, before=(), uaio=None, **options):
    work = tempfile.mkdtemp(dir=tool.scratch)  # the filter's program needs it
    os.chmod(work, 0o777)
    return Report(tool, tool.exec(*before, uaio or tool.uaio, "doctor",
                                  "--json", *arguments, cwd=work, **options))


def behind(tool, filtered):
    return (tool.args.filter, "before", filtered)
