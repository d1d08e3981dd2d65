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
app=
trap 'kill -9 $app $server 2>/dev/null; rm -rf "$folder"' EXIT

fail() {
    echo "Notebook: $1" >&2
    cat "$folder/output" >&2
    [ -z "$screenshot" ] || import -window root "$screenshot"
    exit 1
}

# Repeats a command until it succeeds, for a minute.
await() {
    for _ in {1..600}; do
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
# Sends keys, or text, to the window with a title. No window manager does it here.
keys() {
    await window "$1"
    xdotool windowfocus "$(window "$1" | head -1)" key --delay 30 "${@:2}"
}
text() {
    await window "$1"
    xdotool windowfocus "$(window "$1" | head -1)" type --delay 5 "$2"
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
text '^Trip' 'Pack the camera'
keys '^Trip' ctrl+s
await has $'# Lisbon\nPack the camera'
text '^Trip' ', or not'
keys '^Trip' ctrl+s
await has $'# Lisbon\nPack the camera, or not'
keys '^Trip' ctrl+z ctrl+s
await has $'# Lisbon\nPack the camera'
keys '^Trip' ctrl+shift+z ctrl+s
await has $'# Lisbon\nPack the camera, or not'
keys '^Trip' ctrl+z ctrl+s
await has $'# Lisbon\nPack the camera'

# A second note, with an attachment.
seq 1000 >"$folder/tickets.csv"
keys '^Trip' ctrl+n
text '^Trip' 'Madrid'
keys '^Trip' ctrl+shift+a
keys '^Attach$' ctrl+l ctrl+a
text '^Attach$' "$folder/tickets.csv"
keys '^Attach$' Return
notes=$'# Madrid\n\n[tickets.csv, 3893]\n# Lisbon\nPack the camera'
await has "$notes"
await window '^Trip – Saved'
[ -z "$screenshot" ] || import -window "$(window '^Trip' | head -1)" "$screenshot"

# What was saved automatically is there after the program was killed; also as text.
keys '^Trip' Tab
text '^Trip' 'Prado on Sunday'
notes=$'# Madrid\nPrado on Sunday\n[tickets.csv, 3893]\n# Lisbon\nPack the camera'
await has "$notes"
kill -9 "$app"
wait "$app" 2>/dev/null || true
grep -q 'Prado on Sunday' "$book"/AdditionalContent/*/Notes.txt || fail 'Notes.txt lacks a note'
start '^Trip – Saved'
has "$notes" || fail 'something is missing after the kill'

# A version, and back to it.
keys '^Trip' ctrl+k
text '^Keep Version$' 'Before leaving'
keys '^Keep Version$' Return
await gone '^Keep Version$'
keys '^Trip' ctrl+d ctrl+s
await has $'# Lisbon\nPack the camera'
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
keys '^Trip' ctrl+w
await ended
wait "$app" || fail 'the program failed'
! grep -E 'CRITICAL|Fatal' "$folder/output" || fail 'GTK complains'
echo "Notebook does what it should."
