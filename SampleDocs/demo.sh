#!/bin/bash
# Shows what Quire does: makes, fills, edits, checks and packs a document in a folder of its own. Stops with an
# error where anything is not as it should be.
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

title "A document from a template, filled from a file"
run quire templates
run quire new Library.quire --template Library
run quire import Library.quire Book books.csv
expect "books imported" "$books" "$(quire fetch Library.quire Book --count)"

title "Looking at it"
run quire fetch Library.quire Book --where 'author.name == "Jane Austen"' --sort year --columns title,year,author.name
run quire fetch Library.quire Author --where 'born BETWEEN {1800, 1819}' --sort born --columns name,born,died --limit 5
run quire fetch Library.quire Book --where 'ANY loans.friend.name == "Ada"' --count
run quire set Library.quire --where 'title == "Emma"' rating=4.5
expect "books rated 4.5" 1 "$(quire fetch Library.quire Book --where 'rating == 4.5' --count)"

title "An editing session, fed from a pipe: undo, redo, save"
emma=$(quire fetch Library.quire Book --where 'title == "Emma"' --columns title | awk 'NR == 2 { print $1 }')
cat >session <<END
set $emma title='Emma, or Matchmaking' rating=1
undo
insert Loan book=$emma friend=Friend/p1 dueDate=2026-12-24
insert Friend name=Lovelace
undo
redo
undo
status
save
fetch Loan --columns book.title,friend.name,dueDate
quit
END
run cat session
echo "\$ quire open Library.quire < session"
quire open Library.quire <session
echo
expect "Emma's title after undo" 1 "$(quire fetch Library.quire Book --where 'title == "Emma"' --count)"
expect "friends after undo" 2 "$(quire fetch Library.quire Friend --count)"
expect "loans" 1 "$(quire fetch Library.quire Loan --count)"

title "Autosave: nobody says save, then the program is killed"
mkfifo lines
"$quire_program" open Library.quire --autosave 0.2 <lines >answers &
session=$!
# The shell need not tell that it was killed: that is what happens here.
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
    saved=$(quire fetch Library.quire Friend --where 'name == "Mary"' --count)
    [ "$saved" = 0 ] || break
    sleep 0.05
done
expect "Mary is in the document" 1 "$saved"
kill -9 "$session"
exec 3>&-
while kill -0 "$session" 2>/dev/null; do sleep 0.05; done
echo "(saved by itself, then killed by signal 9)"
echo
run quire fetch Library.quire Friend --columns name,email

title "Is it whole? What is in it?"
run quire check Library.quire
run quire info Library.quire

title "Packing and unpacking"
for archive in Library.zip Library.tar.zst; do
    run quire export Library.quire "$archive"
    copy=from-${archive#Library.}.quire
    run quire extract "$archive" "$copy"
    quire dump Library.quire >original.json
    quire dump "$copy" >copy.json
    cmp original.json copy.json || fail "the document out of $archive differs"
    echo "The dumps of Library.quire and $copy are equal: $(wc -c <copy.json) bytes."
    echo
done
ls -l *.zip *.tar.zst | awk '{ print $5 " bytes", $9 }'
echo
run quire info Library.zip

title "A protected document: sealed on disk, locked without its key"
run quire protect Library.quire --class complete --key-file my.key --make-key-file
status=0
echo "\$ quire fetch Library.quire Book --count"
quire fetch Library.quire Book --count || status=$?
echo
expect "exit status of a locked document" 5 "$status"
run quire fetch Library.quire Book --count --key-file my.key
! grep -rq "Matchmaking\|Austen" Library.quire || fail "the protected document has texts in clear"
run quire check Library.quire --key-file my.key

if [ -n "$store" ]; then
    title "A Core Data store: a copy of $(basename "$store")"
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

echo "Done. README.md says more; quire --help says all."
