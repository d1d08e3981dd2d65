#!/bin/bash
# Checks what the program prints, with notes of its own, and what building it fetches.
#
# Usage: check.sh PROGRAM
set -uo pipefail

XDG_DATA_HOME=$(mktemp -d)
export XDG_DATA_HOME
trap 'rm -rf "$XDG_DATA_HOME"' EXIT

# Quire's command needs more packages than its libraries; see Package.swift.
dependencies=$(cd "$(dirname "$0")" && swift package show-dependencies) || exit
if grep -iE 'argument-parser|stencil' <<<"$dependencies"; then
    echo "Notes fetches packages that only Quire's command needs." >&2
    exit 1
fi

notes() { "$program" "$@" 2>&1 || echo "[$?]"; }

program=$1
diff <(
    notes add "Buy milk #home"
    notes add "Read Emma #books #home"
    notes add Sleep
    notes list
    notes list home
    notes search EMMA
    notes tags
    notes delete 2
    notes delete 2
    notes tags
    notes list
) - <<'END' && echo "Notes prints what it should."
1  Buy milk #home
2  Read Emma #books #home
3  Sleep
3  Sleep
2  Read Emma #books #home
1  Buy milk #home
2  Read Emma #books #home
1  Buy milk #home
2  Read Emma #books #home
#books  1
#home  2
There is no note 2.
[1]
#home  1
3  Sleep
1  Buy milk #home
END
