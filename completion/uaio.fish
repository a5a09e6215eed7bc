# SPDX-License-Identifier: MIT
#
# Completion of uaio for fish. What it offers is what uaio says of itself, so it is
# as new as the command.

function __uaio_subcommands
	uaio help 2>/dev/null | string replace -rf '^  uaio ([a-z]+) .*' '$1'
end

function __uaio_options
	set -l words (commandline -opc)
	uaio $words[2] --help 2>/dev/null |
		string replace -rf '^  (?:-\w, )?(--[a-z-]+)\S*(?: [^ a-z]+)? +(?:UAIO_\w+ +)?(.*)' '$1\t$2'
end

# Given a wrong value, uaio names those that the option takes.
function __uaio_values
	set -l option (commandline -ct | string replace -rf '^(--[a-z-]+)=.*' '$1')
	test -n "$option"; or return
	for value in (uaio run "$option=?" 2>&1 | string replace -rf '.*: expected (.* or [a-z0-9_]+)$' '$1' | string split -n ', ' | string split -n ' or ')
		string match -q '* *' -- $value; or echo "$option=$value"
	end
end

complete -c uaio -f
complete -c uaio -n 'test (count (commandline -opc)) -eq 1' -a '(__uaio_subcommands) --help --version'
complete -c uaio -n 'test (count (commandline -opc)) -gt 1; and string match -q -- "-*" (commandline -ct)' -a '(__uaio_options) (__uaio_values)'
complete -c uaio -n '__fish_seen_subcommand_from run trace check' -a '(__fish_complete_subcommand --fcs-skip=2)'
complete -c uaio -n '__fish_seen_subcommand_from doctor bench' -F
