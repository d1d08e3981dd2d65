#!/bin/bash
# Shows synchronization: two machines, which are two folders here, edit one document through a shared folder, at first in turn,
# then at the same time, as two processes. Stops with an error where the documents are not the same at the end.
#
# Usage: demo-sync.sh QUIRE
set -euo pipefail

. "$(dirname "$0")/demo-functions.sh" "$1"

folder=$(mktemp -d "${TMPDIR:-/tmp}/quire-sync.XXXXXX")
watchers=()
end() {
    for watcher in "${watchers[@]}"; do kill "$watcher" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap end EXIT
cd "$folder"
mkdir ada grace
cp "$samples/books.csv" .

# Waits until a command prints a text.
await() {
    local text=$1
    shift
    for _ in $(seq 400); do
        [ "$("$@")" != "$text" ] || return 0
        sleep 0.05
    done
    fail "$* does not print $text"
}

title "Ada shares a document"
run quire new ada/Library.quire --template Library
run quire import ada/Library.quire Book books.csv
run quire sync init ada/Library.quire shared
run find shared -type f

title "Grace joins: her document is made with the model and the objects in the folder"
run quire sync join shared grace/Library.quire
expect_same

title "Both edit one book without knowing of each other"
run quire set ada/Library.quire Book/p1 title="Sense and Sensibility, by a Lady" rating=4
run quire set grace/Library.quire Book/p1 title="Sense & Sensibility" year=1812
run quire sync run ada/Library.quire
run quire sync run grace/Library.quire
run quire sync run ada/Library.quire
expect_same

title "Each property was merged; of the two titles the later one stays, the other is listed"
run quire fetch ada/Library.quire Book --where 'rating == 4 AND year == 1812' --columns title,year,rating
expect "books with both edits" 1 "$(quire fetch ada/Library.quire Book --where 'rating == 4 AND year == 1812' --count)"
run quire sync conflicts ada/Library.quire
run quire sync resolve ada/Library.quire 1 --lost
run quire sync run ada/Library.quire
run quire sync run grace/Library.quire
expect "Grace's conflicts" "No conflicts." "$(quire sync conflicts grace/Library.quire)"
expect "books with Ada's title" 1 "$(quire fetch grace/Library.quire Book --where 'title ENDSWITH "by a Lady"' --count)"
expect_same

title "Two processes go on synchronizing while both edit"
for machine in ada grace; do
    echo "\$ quire sync watch $machine/Library.quire &"
    # Not by the function, whose shell a signal would end instead.
    "$quire_program" sync watch $machine/Library.quire >$machine.log 2>&1 &
    watchers+=($!)
done
echo
run quire insert ada/Library.quire Author name="Ann Radcliffe" born=1764
run quire insert grace/Library.quire Friend name=Mary
run quire set ada/Library.quire Book/p2 rating=5
await 51 quire fetch grace/Library.quire Author --count
await 3 quire fetch ada/Library.quire Friend --count
await 1 quire fetch grace/Library.quire Book --where 'rating == 5' --count

title "The folder goes: both edit on, and what they have saved is sent when it is back"
run mv shared away
run quire insert ada/Library.quire Loan friend=Friend/p1 book=Book/p2 dueDate=2026-12-24
run quire set grace/Library.quire Book/p3 rating=3
run mv away shared
await 1 quire fetch grace/Library.quire Loan --count
await 1 quire fetch ada/Library.quire Book --where 'rating == 3' --count
for watcher in "${watchers[@]}"; do kill "$watcher"; done
wait
watchers=()
for machine in ada grace; do
    echo "What $machine's process has printed:"
    cat $machine.log
    echo
done

title "A file in the folder is cut off: it is reported, and all others are merged"
run quire set ada/Library.quire Book/p4 rating=2
run quire sync run ada/Library.quire
cut=$(ls -t shared/log/*.seg | head -n 1)
cp "$cut" whole
run truncate -s -20 "$cut"
run quire sync run grace/Library.quire
expect "books rated 2" 0 "$(quire fetch grace/Library.quire Book --where 'rating == 2' --count)"
run cp whole "$cut"
run quire sync run grace/Library.quire
run quire sync status grace/Library.quire
expect_same
echo "Both documents are the same, and whole."
