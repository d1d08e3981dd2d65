#!/bin/bash
# Shows synchronization through Syncthing: two machines, which are two folders and two Syncthing processes here, edit one
# document. The processes have the loopback address only: nothing is announced, relayed or sent elsewhere. Stops with an error
# where the documents are not the same at the end, or after five minutes.
#
# Usage: demo-syncthing.sh QUIRE
set -euo pipefail

for program in syncthing curl; do
    if ! command -v "$program" >/dev/null; then
        echo "demo-syncthing: $program is missing; install it, on Debian by: apt-get install syncthing curl" >&2
        exit 2
    fi
done

. "$(dirname "$0")/demo-functions.sh" "$1"
limit=300

# Not beneath TMPDIR: the path of a socket is of 107 characters at most.
folder=$(mktemp -d /tmp/quire-syncthing.XXXXXX)
processes=()
end() {
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' INT TERM HUP
cd "$folder"
mkdir -p ada/Sync grace/Sync
cp "$samples/books.csv" .

# Waits until a command succeeds.
await() {
    until "$@"; do
        [ $SECONDS -lt $limit ] || fail "$* does not succeed within $limit seconds"
        sleep 0.1
    done
}

# Whether a command prints a text.
prints() {
    local text=$1
    shift
    [ "$("$@")" = "$text" ]
}

# Syncthing's REST API, at a socket that only this user reaches: METHOD PATH, of a machine.
api() {
    local machine=$1 method=$2 path=$3
    shift 3
    curl --silent --show-error --fail --max-time 60 --unix-socket "$machine.socket" -H "X-API-Key: quire" \
        -X "$method" "http://localhost/rest/$path" "$@"
}

# Whether a machine's Syncthing, a process, answers and listens for the other one.
listens() {
    kill -0 "$2" 2>/dev/null || fail "$1's Syncthing has ended: $(tail -n 3 "$1.log")"
    [ -n "$(listening_port "$1" 2>/dev/null)" ]
}

# The port that the kernel has given it.
listening_port() {
    api "$1" GET system/status | grep -oE 'tcp://127\.0\.0\.1:[1-9][0-9]*' | head -n 1 | grep -oE '[0-9]+$'
}

# Starts a machine's Syncthing, with one folder that it shares with the other machine, at an address. It listens at a free port.
start() {
    local machine=$1 other=$2 own_id=${ids[$1]} other_id=${ids[$2]}
    cat >"$machine/syncthing/config.xml" <<END
<configuration version="36">
    <folder id="quire" label="Sync" path="$folder/$machine/Sync" type="sendreceive"
        rescanIntervalS="3600" fsWatcherEnabled="true" fsWatcherDelayS="1">
        <device id="$own_id"/>
        <device id="$other_id"/>
    </folder>
    <device id="$own_id" name="$machine"/>
    <device id="$other_id" name="$other"><address>$3</address></device>
    <gui enabled="true" tls="false"><address>$folder/$machine.socket</address><apikey>quire</apikey></gui>
    <options>
        <listenAddress>tcp://127.0.0.1:0</listenAddress>
        <globalAnnounceEnabled>false</globalAnnounceEnabled>
        <localAnnounceEnabled>false</localAnnounceEnabled>
        <relaysEnabled>false</relaysEnabled>
        <natEnabled>false</natEnabled>
        <reconnectionIntervalS>1</reconnectionIntervalS>
        <startBrowser>false</startBrowser>
        <autoUpgradeIntervalH>0</autoUpgradeIntervalH>
        <urAccepted>-1</urAccepted>
        <crashReportingEnabled>false</crashReportingEnabled>
        <stunKeepaliveStartS>0</stunKeepaliveStartS>
    </options>
</configuration>
END
    # It ends with this script even if that is killed.
    setpriv --pdeathsig TERM syncthing serve --home="$folder/$machine/syncthing" --no-browser --no-restart \
        --no-upgrade --no-default-folder >"$machine.log" 2>&1 &
    processes+=($!)
    await listens "$machine" $!
}

# Whether a machine knows that the other one has all of its files.
is_complete() {
    api "$1" GET "db/completion?folder=quire&device=${ids[$2]}" | tr -d ' \n' \
        | grep -qE '"completion":100,.*"needDeletes":0,.*"needItems":0'
}

# Waits until each machine's files are on the other one, as Syncthing says.
carry() {
    local began=$EPOCHREALTIME machine
    for machine in ada grace; do api $machine POST "db/scan?folder=quire"; done
    await is_complete ada grace
    await is_complete grace ada
    local files
    files=$(find grace/Sync/Library -type f | wc -l)
    expect "files on both machines" "$(cd ada/Sync/Library && find . -type f | sort)" \
        "$(cd grace/Sync/Library && find . -type f | sort)"
    echo "Syncthing has carried all within $(((${EPOCHREALTIME/[.,]/} - ${began/[.,]/}) / 1000)) ms; the shared document has $files files."
    echo
}

declare -A ids
for machine in ada grace; do
    syncthing generate --home="$machine/syncthing" --no-default-folder --skip-port-probing >"$machine.log" 2>&1
    ids[$machine]=$(syncthing serve --device-id --home="$machine/syncthing")
    mkdir "$machine/Sync/.stfolder"
done
# One of the two calls the other; its port is known once it listens.
start ada grace dynamic
start grace ada "tcp://127.0.0.1:$(listening_port ada)"

title "Ada shares a document in a folder that Syncthing carries"
run quire new ada/Library.quire --template Library
run quire import ada/Library.quire Book books.csv
run quire sync init ada/Library.quire ada/Sync/Library
carry

title "Grace joins, when the files are on her machine"
run quire sync join grace/Sync/Library grace/Library.quire
expect_same
carry

title "Without a connection both edit one book, and each sends what can be sent"
api ada POST "system/pause?device=${ids[grace]}"
run quire set ada/Library.quire Book/p1 title="Sense and Sensibility, by a Lady" rating=4
run quire sync run ada/Library.quire
run quire set grace/Library.quire Book/p1 title="Sense & Sensibility" year=1812
run quire insert grace/Library.quire Friend name=Mary
run quire sync run grace/Library.quire

title "They are connected again: Syncthing carries both ways, and each merges what it has got"
api ada POST "system/resume?device=${ids[grace]}"
carry
run quire sync run ada/Library.quire
run quire sync run grace/Library.quire
expect_same
expect "books with both edits" 1 "$(quire fetch ada/Library.quire Book --where 'rating == 4 AND year == 1812' --count)"

title "Of the two titles the later one stays; the other is listed, and Ada takes it"
run quire sync conflicts ada/Library.quire
run quire sync resolve ada/Library.quire 1 --lost
run quire sync run ada/Library.quire
carry
run quire sync run grace/Library.quire
expect "Grace's conflicts" "No conflicts." "$(quire sync conflicts grace/Library.quire)"
expect "books with Ada's title" 1 "$(quire fetch grace/Library.quire Book --where 'title ENDSWITH "by a Lady"' --count)"
expect_same

title "Two processes go on synchronizing, and Syncthing notices files by itself"
for machine in ada grace; do
    echo "\$ quire sync watch $machine/Library.quire &"
    # Not by the function, whose shell a signal would end instead.
    "$quire_program" sync watch $machine/Library.quire >$machine.watch 2>&1 &
    processes+=($!)
done
echo
began=$SECONDS
run quire insert ada/Library.quire Author name="Ann Radcliffe" born=1764
run quire set grace/Library.quire Book/p2 rating=5
await prints 51 quire fetch grace/Library.quire Author --count
await prints 1 quire fetch ada/Library.quire Book --where 'rating == 5' --count
echo "Both edits were on the other machine within $((SECONDS - began)) s."
for process in "${processes[@]:2}"; do kill "$process"; done
wait "${processes[@]:2}" || true
processes=("${processes[@]:0:2}")
carry
expect_same

title "A document in the folder itself is Ada's to edit; what belongs to her machine stays there"
for machine in ada grace; do run quire sync ignore $machine/Sync; done
run quire new ada/Sync/Notes.quire --template Notes
mkfifo lines
echo "\$ quire open ada/Sync/Notes.quire &"
"$quire_program" open ada/Sync/Notes.quire <lines >ada.open &
processes+=($!)
exec 3>lines
printf 'insert Tag name=spring\nsave\n' >&3
await grep -q Saved ada.open
carry
run find ada/Sync/Notes.quire grace/Sync/Notes.quire -type f
for name in .lock StoreContent/persistentStore-wal StoreContent/persistentStore-shm; do
    [ -e "ada/Sync/Notes.quire/$name" ] || fail "$name is not there while the document is open"
    [ ! -e "grace/Sync/Notes.quire/$name" ] || fail "Syncthing has carried $name"
done
exec 3>&-
wait "${processes[2]}"
processes=("${processes[@]:0:2}")
carry
run quire diff ada/Sync/Notes.quire grace/Sync/Notes.quire --exit-code
expect "tags" 1 "$(quire fetch grace/Sync/Notes.quire Tag --where 'name == "spring"' --count)"

! find ada/Sync grace/Sync -name '*sync-conflict*' | grep . || fail "Syncthing has made copies of files"
echo "Both documents are the same, and whole, after $SECONDS s; Syncthing has found no conflict of files."
