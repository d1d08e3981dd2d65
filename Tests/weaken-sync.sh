#!/bin/bash
# Weakens one rule of synchronization after another, and runs the simulation, and the test of what that meets too rarely, one of which
# must fail each time: it would notice if the rule got lost. It builds the last commit in a temporary folder; takes minutes for each rule.
#
# Usage: weaken-sync.sh PROGRAM BUILD [RULE]...     PROGRAM is what BUILD, a command, builds; both in that folder
set -uo pipefail
cd "$(dirname "$0")/.."

program=$1 build=$2
shift 2
sync=Sources/QuireSync
rules=(tombstones clock read-first conflicts waiting forgotten forks)

# The file of a rule, and what weakens it: an expression of Perl on the whole text.
weaken() {
    case $1 in
    # Snapshots lack deleted objects.
    tombstones) edit Replica/SyncReplica+Snapshots.swift \
        's/\.compactMap \{ try tables\.object\(\$0\)\?\.record \}/$&.filter(\\.isAlive)/' ;;
    # The machine's clock decides, whatever has been seen.
    clock) edit State/SyncIdentifier.swift \
        's/last = max\(last, min\(time, Self\.maximumObserved\)\)//; s/last = max\(last \+ 1, (UInt64\(seconds \* 1000\) << 16)\)/last = $1/' ;;
    # Files are removed that have not been merged.
    read-first)
        edit SyncContainer+Receiving.swift \
            's/return snapshots \+ listed\.filter \{ !unknown\.contains\(\$0\) \}/return snapshots + listed/'
        edit SyncContainer+Compacting.swift \
            's/\$0\.part == nil && snapshot\.seen\.contains\(\$0\.peer, \$0\.sequence\)/\$0.part == nil/' ;;
    # Values that lose are not listed.
    conflicts) edit Replica/SyncMerge.swift \
        's/try tables\.addConflict\(of: record, key, lost, at: date\)//' ;;
    # Deletions are forgotten as soon as this replica knows of them.
    waiting) edit Replica/SyncStability.swift \
        's/common\.contains\(candidate\.acknowledged\)/true/; s/let active = try activePeers\(at: date\)/let active = try activePeers(at: date).filter { \$0.id == settings.peer }/' ;;
    # A snapshot does not say which deletions its author has forgotten.
    forgotten) edit Replica/SyncMerge.swift \
        's/if segment\.forgotten\.ranges\.isEmpty \{ return \}/return/' ;;
    # A store whose bytes were set back keeps its identifier, and nobody sends what others take for something else.
    forks)
        edit Replica/SyncReplica.swift \
            's/if try !unknown\(own\)\.isEmpty \{/if false, try !unknown(own).isEmpty {/'
        edit Replica/SyncTables+Files.swift \
            's/return last > settings\.sequence - unsent \+ 1/return last > .max - unsent/'
        edit Replica/SyncMerge.swift 's/if forks\.isEmpty \{ return \}/if true { return }/' ;;
    *) echo "There is no rule $1." >&2; exit 2 ;;
    esac
}

edit() {
    perl -0pi -e "$2" "$sync/$1"
    ! git diff --quiet -- "$sync/$1" || { echo "The rule is not in $sync/$1 any more." >&2; exit 2; }
}

# In a tree of its own, so that nothing weakened is left, or committed, here.
tree=$(mktemp -d "${TMPDIR:-/tmp}/quire-weaken.XXXXXX")
git worktree add -q --detach "$tree" HEAD || exit 2
trap 'git worktree remove --force "$tree"' EXIT
cd "$tree" || exit 2

status=0
for rule in "${@:-${rules[@]}}"; do
    weaken "$rule"
    $build > /dev/null || { echo "$rule: it does not build" >&2; exit 2; }
    count=$("$program" --testing-library swift-testing --experimental-maximum-parallelization-width 6 \
        --filter 'machinesAgreeWhateverHappens|aFileThatHasNotBeenMergedIsNotRemoved|aReplicaWhoseContentIsSetBackLosesNothing' 2>&1 |
        grep -a 'recorded an issue' | sed -E 's/.*seed → ([0-9]+).*/\1/' | sort -u | wc -l)
    git checkout -q -- "$sync"
    echo "$rule: $count runs fail"
    [ "$count" -gt 0 ] || status=1
done
exit $status
