#!/bin/bash
# Shows what Quire does: creates, fills, edits, checks, packs and protects a document in a folder of its own. Stops with an
# error if a result is wrong.
#
# Usage: demo.sh QUIRE        with STORE (and MODEL) of the environment, also looks into a Core Data store
set -euo pipefail

. "$(dirname "$0")/demo-functions.sh" "$1"
store=${STORE:+$(realpath "$STORE")}
model=${MODEL:+$(realpath "$MODEL")}

folder=$(mktemp -d "${TMPDIR:-/tmp}/quire-demo.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"

books=$(($(wc -l <"$samples/books.csv") - 1))
cp "$samples/books.csv" .

title "Create a document, and fill it from a file"
run quire new Library.quire --template Library
run quire import Library.quire Book books.csv
expect "books imported" "$books" "$(quire fetch Library.quire Book --count)"

title "Query it"
run quire fetch Library.quire Book --where 'author.name == "Jane Austen" AND year > 1813' \
    --sort year --columns title,year,author.name
run quire set Library.quire --where 'title == "Emma"' rating=4.5 --dry-run
expect "books rated 4.5 after a dry run" 0 "$(quire fetch Library.quire Book --where 'rating == 4.5' --count)"

title "Edit it in a session: undo, redo, save"
emma=$(quire fetch Library.quire Book --where 'title == "Emma"' --columns title | awk 'NR == 2 { print $1 }')
cat >session <<END
set $emma title='Emma, or Matchmaking'
undo
insert Loan book.title=Emma friend.name=Ada dueDate=2026-12-24
insert Friend name=Lovelace
undo
redo
undo
save
END
run cat session
echo "\$ quire open Library.quire < session"
quire open Library.quire <session
echo
expect "Emma's title after undo" 1 "$(quire fetch Library.quire Book --where 'title == "Emma"' --count)"
expect "friends after undo" 2 "$(quire fetch Library.quire Friend --count)"
expect "loans" 1 "$(quire fetch Library.quire Loan --where 'friend.name == "Ada"' --count)"

title "Autosave: the program is killed after a change that it was not asked to save"
mkfifo lines
"$quire_program" open Library.quire --autosave 0.2 <lines >answers &
session=$!
# Keeps the shell from reporting that it was killed, which is intended.
disown
exec 3>lines
echo "insert Friend name=Mary" >&3
until [ -s answers ]; do
    kill -0 "$session" || fail "the session ended too early"
    sleep 0.05
done
echo "\$ quire open Library.quire --autosave 0.2"
echo "insert Friend name=Mary"
cat answers
saved=0
for _ in $(seq 200); do
    saved=$(quire fetch Library.quire Friend --where 'name == "Mary"' --count 2>waiting)
    [ "$saved" = 0 ] || break
    sleep 0.05
done
[ "$saved" = 1 ] || cat waiting >&2
expect "Mary is in the document" 1 "$saved"
kill -9 "$session"
exec 3>&-
while kill -0 "$session" 2>/dev/null; do sleep 0.05; done
echo "(autosaved, then killed by signal 9)"
echo
run quire check Library.quire
run quire search Library.quire Mary

title "Pack and unpack it"
run quire export Library.quire Library.zip
run quire extract Library.zip Copy.quire
run quire diff Library.quire Copy.quire --exit-code || fail "the document from Library.zip differs"

title "Protect it: encrypted on disk, locked without its key"
run quire protect Library.quire --class complete --key-file my.key --make-key-file
status=0
echo "\$ quire fetch Library.quire Book --count"
quire fetch Library.quire Book --count || status=$?
echo
expect "exit status of a locked document" 5 "$status"
run quire fetch Library.quire Book --count --key-file my.key
! grep -rq "Matchmaking\|Austen" Library.quire || fail "the protected document contains unencrypted text"

if [ -n "$store" ]; then
    title "Read a Core Data store: a copy of $(basename "$store")"
    mkdir store
    cp "$store" store/
    [ ! -e "$store-wal" ] || cp "$store-wal" store/
    support="$(dirname "$store")/.$(basename "${store%.*}")_SUPPORT"
    [ ! -e "$support" ] || cp -r "$support" store/
    copy="store/$(basename "$store")"
    options=()
    [ -z "$model" ] || options=(--model "$model")
    run quire info "$copy" "${options[@]}"
    entity=$(quire info "$copy" "${options[@]}" --json |
        sed -nE 's/.*"count": ([0-9]+), "name": "([^"]*)".*/\1 \2/p' | sort -rn | head -1 | cut -d' ' -f2)
    run quire fetch "$copy" "$entity" "${options[@]}" --limit 3
    run quire check "$copy" "${options[@]}"
fi

echo "Done. See README.md and quire --help."
