#!/bin/bash
# Uses the program as a person does, with keys, on a display of its own, and checks what is in the notebook each time.
#
# Usage: check.sh PROGRAM [SCREENSHOT.png]
set -euo pipefail

for tool in Xvfb xdotool; do
    if ! command -v "$tool" >/dev/null; then
        echo "The check of Notebook was skipped: $tool is not installed."
        exit
    fi
done

program=$1
screenshot=${2:-}
folder=$(mktemp -d "${TMPDIR:-/tmp}/notebook-check.XXXXXX")
book=$folder/Trip.notebook
export XDG_DATA_HOME=$folder/data XDG_CONFIG_HOME=$folder/config XDG_CACHE_HOME=$folder/cache XDG_RUNTIME_DIR=$folder/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
export GDK_BACKEND=x11 GSK_RENDERER=cairo GSETTINGS_BACKEND=memory GTK_A11Y=none GTK_USE_PORTAL=0 LC_ALL=C.UTF-8
unset DBUS_SESSION_BUS_ADDRESS WAYLAND_DISPLAY

Xvfb -displayfd 3 -screen 0 1024x720x24 -nolisten tcp 3>"$folder/display" 2>"$folder/xvfb" &
server=$!
disown
app=
trap 'kill -9 $app $server 2>/dev/null; rm -rf "$folder"' EXIT

fail() {
    echo "Notebook: $1" >&2
    cat "$folder/output" >&2
    list >&2 || true
    [ -z "$screenshot" ] || import -window root "$screenshot"
    exit 1
}

# Repeats a command until it succeeds, for half a minute.
await() {
    for _ in {1..300}; do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    fail "waited in vain for: $*"
}

window() { xdotool search --onlyvisible --name "$1" | grep .; }
gone() { ! window "$1"; }
ended() { ! kill -0 "$app"; }
# Starts the program with the notebook, and waits for a window.
start() {
    "$program" "$book" >>"$folder/output" 2>&1 &
    app=$!
    await window "$1"
}
# Sends keys, or text of one or two lines, to the window with a title. There is no window manager, which would do it.
keys() {
    await window "$1"
    xdotool windowfocus "$(window "$1" | head -1)" key --delay 30 "${@:2}"
}
text() {
    await window "$1"
    xdotool windowfocus "$(window "$1" | head -1)" type --delay 5 "${2%%$'\n'*}"
    [[ $2 != *$'\n'* ]] || xdotool key Return type --delay 5 "${2#*$'\n'}"
}
# Waits until the notebook has exactly some notes, as another process reads them.
list() { "$program" --list "$book" <<<"$secret"; }
has() { [ "$(list)" = "$1" ]; }
secret=none

await test -s "$folder/display"
DISPLAY=:$(cat "$folder/display")
export DISPLAY

# A note, and typing that one undo takes back as a whole.
start '^Trip – Saved'
keys '^Trip' ctrl+n
text '^Trip' Lisbon
keys '^Trip' Tab
text '^Trip' $'Pack the camera\nTram 28 to Alfama'
keys '^Trip' ctrl+s
lisbon=$'# Lisbon\nPack the camera\nTram 28 to Alfama'
await has "$lisbon"
text '^Trip' ', or walk'
keys '^Trip' ctrl+s
await has "$lisbon, or walk"
keys '^Trip' ctrl+z ctrl+s
await has "$lisbon"
keys '^Trip' ctrl+shift+z ctrl+s
await has "$lisbon, or walk"
keys '^Trip' ctrl+z ctrl+s
await has "$lisbon"

# A second note, with an attachment.
seq 100000 >"$folder/Tickets.csv"
keys '^Trip' ctrl+n
text '^Trip' 'Madrid'
keys '^Trip' ctrl+shift+a
keys '^Attach$' ctrl+l ctrl+a
text '^Attach$' "$folder/Tickets.csv"
keys '^Attach$' Return
await has $'# Madrid\n\n[Tickets.csv, 588895]\n'"$lisbon"
ls "$book"/StoreContent/.persistentStore_SUPPORT/_EXTERNAL_DATA/* >/dev/null || fail 'the attachment is not a file'

# What was saved automatically is there after the program was killed; also as text.
keys '^Trip' Tab
text '^Trip' $'Prado on Sunday, from ten\nDinner at Sol'
notes=$'# Madrid\nPrado on Sunday, from ten\nDinner at Sol\n[Tickets.csv, 588895]\n'"$lisbon"
await has "$notes"
await window '^Trip – Saved'
[ -z "$screenshot" ] || import -window "$(window '^Trip' | head -1)" "$screenshot"
kill -9 "$app"
wait "$app" 2>/dev/null || true
grep -q 'Prado on Sunday' "$book"/AdditionalContent/*/Notes.txt || fail 'Notes.txt lacks a note'
start '^Trip – Saved'
has "$notes" || fail 'something is missing after the kill'

# Another process that wants to write gets Quire's error.
"$program" "$book" >>"$folder/output" 2>&1 &
other=$!
keys '^The notebook could not be opened' Return
wait "$other" || fail 'the second process failed'

# A version, and back to it.
versions() { find "$book/Versions" -name Manifest | wc -l; }
kept() { [ "$(versions)" -gt "$count" ]; }
count=$(versions)
keys '^Trip' ctrl+k
text '^Keep Version$' 'Before leaving'
keys '^Keep Version$' Return
await kept
keys '^Trip' ctrl+d ctrl+s
await has "$lisbon"
keys '^Trip' ctrl+r
keys '^Versions$' Return
await has "$notes"

# An archive.
keys '^Trip' ctrl+e
keys '^Export' ctrl+a
text '^Export' "$folder/Trip.tar.zst"
keys '^Export' Return
await test -s "$folder/Trip.tar.zst"

# Protection: nothing is readable, but with the passphrase, and saving goes on.
keys '^Trip' ctrl+p
text '^Protect Notebook$' 'correct horse'
keys '^Protect Notebook$' Return
secret='correct horse'
await window '^Trip – Saved, protected'
has "$notes" || fail 'something is missing after protecting'
! grep -rqa Prado "$book" || fail 'the protected notebook is readable'
keys '^Trip' ctrl+n
text '^Trip' 'Home'
keys '^Trip' ctrl+w
await ended
wait "$app" || fail 'the program failed'
! grep -rqa Home "$book" || fail 'the protected notebook is readable'

# Closing has saved. The passphrase is asked for, until it is right.
start '^Unlock Notebook$'
text '^Unlock Notebook$' 'wrong'
keys '^Unlock Notebook$' Return
await gone '^Unlock Notebook$'
text '^Unlock Notebook$' 'correct horse'
keys '^Unlock Notebook$' Return
await window '^Trip – Saved, protected'
has $'# Home\n\n'"$notes" || fail 'closing has not saved'

# A process that is asked to end saves.
keys '^Trip' ctrl+n
text '^Trip' 'At last'
await window '^Trip – Edited'
kill "$app"
await ended
has $'# At last\n\n# Home\n\n'"$notes" || fail 'ending has not saved'
! grep -E 'CRITICAL|Fatal' "$folder/output" || fail 'GTK complains'
echo "Notebook does what it should."
