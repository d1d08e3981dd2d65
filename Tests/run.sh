#!/bin/bash
# Runs the tests that `make test` has built, in several processes beside each other, because those of one process share one
# main queue and wait for it. Each process prints what it has to say when it is done.
#
# Usage: run.sh PROGRAM [PATTERN]     with a pattern, only the tests whose name it matches, in one process
set -uo pipefail

program=$1
pattern=${2:-}
# The defaults of whoever runs the tests do not count.
export QUIRE_CONFIG=
# As in a debug build: contexts check their queue, and rounds of synchronization all rows.
export QUIRE_CONCURRENCY_DEBUG=1 QUIRE_SYNC_DEBUG=1

# Each target is in one of them: the last takes what the others do not name, so that none is forgotten.
shards=(
    '^QuireTests\.[A-L]' '^QuireTests\.[^A-L]' '^QuireCommandTests\.'
    '^(QuireDocumentsTests|QuireMigrationTests|QuireMacrosTests)\.' '^QuireSyncTests\.'
)
rest=$(IFS='|'; echo "${shards[*]}")

run() { "$program" --testing-library swift-testing --experimental-maximum-parallelization-width 6 "$@"; }

echo "Random tests start from QUIRE_SEED=${QUIRE_SEED:-1}."
if [ -n "$pattern" ]; then
    run --filter "$pattern"
    exit
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/quire-tests.XXXXXX")
processes=()
# Ctrl-C does not reach what runs in the background.
trap 'kill "${processes[@]}" 2>/dev/null; rm -rf "$folder"' EXIT
shards+=("$rest")
for number in "${!shards[@]}"; do
    choice=--filter
    [ "${shards[number]}" = "$rest" ] && choice=--skip
    run "$choice" "${shards[number]}" >"$folder/$number" 2>&1 &
    processes+=($!)
done
# Documents once more, protected; not what only has stores.
shards+=('^(QuireDocumentsTests|QuireDurabilityTests)\.')
number=$((${#shards[@]} - 1))
QUIRE_TEST_PROTECTION=complete run --filter "${shards[number]}" --skip 'SyncCrashTests|SyncedContentKillTests|StoreCreationTests' \
    >"$folder/$number" 2>&1 &
processes+=($!)
failed=()
for number in "${!shards[@]}"; do
    wait "${processes[number]}"
    status=$?
    cat "$folder/$number"
    # A process that was killed has said of no test that it failed: then its last lines are what there is.
    [ "$status" = 0 ] || failed+=("$number $status")
done
if [ "${#failed[@]}" != 0 ]; then
    echo "Tests failed, with QUIRE_SEED=${QUIRE_SEED:-1}:"
    for failure in "${failed[@]}"; do
        read -r number status <<<"$failure"
        echo "Process $number (${shards[number]}) ended with $status."
        grep -aE '✘|recorded an issue|Fatal|crashed' "$folder/$number" | head -100
        [ "$status" = 1 ] || tail -n 30 "$folder/$number"
    done
    exit 1
fi
cat "$folder"/* | grep -a 'Test run with'
