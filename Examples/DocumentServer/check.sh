#!/bin/bash
# Checks what the server answers, with documents of its own: the lines of README.md, other cases of each request, clients in parallel,
# and what is on the disk after the server was killed, or asked to end, while clients write.
#
# Usage: check.sh PROGRAM
set -uo pipefail

program=$(realpath "$1")
readme=$(realpath "$(dirname "$0")")/README.md
folder=$(mktemp -d)
server=
other=
trap '{ [[ -z $server ]] || end KILL; [[ -z $other ]] || kill "$other"; } 2>/dev/null; rm -rf "$folder"' EXIT
# The trash, and the archives while they are sent, are in the folder too.
export XDG_DATA_HOME=$folder/data TMPDIR=$folder/temporary
mkdir "$folder/documents" "$TMPDIR"
cd "$folder"

fail() { echo "$*" >&2; exit 1; }

# Repeats a command until it succeeds, for half a minute at most.
await() {
    local end=$((SECONDS + 30))
    until "$@"; do
        ((SECONDS < end)) || fail "Not within 30 seconds: $*"
        sleep 0.05
    done
}

# Starts the server on a free port; at most four documents stay open, so that they are closed and opened again.
start() {
    rm -f output
    "$program" documents --port 0 --open 4 >output 2>errors &
    server=$!
    await grep -qs http output
    url=$(grep -o 'http:.*' output)
}

# Sends the server a signal and waits until it has ended.
end() {
    kill "-$1" "$server"
    wait "$server" 2>/dev/null
    status=$?
    server=
}

# Prints the body of the response and its status.
ask() { curl -sS -w '%{http_code}\n' "$@" | sed "s|$url||"; }

# --- The lines of the README

transcript() { awk '/^```/ { inside = $0 == "```console"; next } inside' "$readme"; }

start
transcript | while IFS= read -r line; do
    if [[ $line != '$ '* ]]; then continue; fi
    printf '%s\n' "$line"
    line=${line#'$ curl '}
    eval "curl -sS ${line//localhost:8080/$url}"
done | tr -d '\r' | sed -E -e "s/[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}/UUID/g" \
    -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z/TIME/g' | diff - <(transcript) || fail "README.md (>) shows something else."
echo "The server answers what README.md shows."

# --- Other answers

items=$url/documents/Picnic/items
long=$(printf 'x%.0s' $(seq 201))
head -c 70000 /dev/zero >large
head -c 17000000 /dev/zero >larger
"$program" documents --port 0 >other-output &
other=$!
await grep -qs http other-output
{
    echo "# names"
    for name in . .. ..%2F..%2Fetc a%2Fb %00 %FF .hidden "" "$long"; do ask --path-as-is -o /dev/null -X PUT "$url/documents/$name"; done
    ask --path-as-is "$url/documents/../../etc/passwd"
    ask -X PUT "$url/documents/Caf%C3%A9%20%231"
    ask -X PUT "$url/documents/Cafe%CC%81%20%231"
    ls -A documents
    echo "# what is missing or taken"
    for path in documents/None documents/Picnic/items/9 documents/Picnic/items/x documents/Picnic/items/1/x \
        documents/Picnic/items/99999999999999 documents/Picnic/x x; do ask "$url/$path"; done
    ask -X PUT "$url/documents/Picnic"
    ask -X PATCH "$items/1"
    echo "# bodies"
    ask -d '{"title": 3}' "$items"
    ask -d '{"title": ""}' "$items"
    ask --data-binary @large "$items" "$items/2" -o second
    ask --data-binary @large -H "Transfer-Encoding: chunked" "$items"
    ask -X PUT -T larger -H "Content-Type: application/zip" -H Expect: "$url/documents/New"
    ask -X PUT -T large -H "Content-Type: application/zip" "$url/documents/New"
    ask -X PUT -T archive -H "Content-Type: application/zip" "$url/documents/Copy"
    ask "$url/documents/New"
    echo "# conditions"
    tag=$(curl -sSI -X GET "$items/2" | tr -d '\r' | sed -n 's/^ETag: //p')
    ask -H "If-None-Match: $tag" "$items/2"
    ask -H "If-None-Match: \"x\"" "$items/2"
    ask -X DELETE -H 'If-Match: "x"' "$items/2" | sed 's/is .*}/is …/'
    ask -X DELETE -H "If-Match: $tag" "$items/2"
    ask -X DELETE "$items/2"
    echo "# queries"
    for title in Ähre Apfel Birne; do ask -o /dev/null -d "{\"title\": \"$title\", \"due\": \"2026-12-24T18:00:00Z\"}" "$items"; done
    for offset in 0 2 4; do ask "$items?sort=-title&limit=2&offset=$offset"; done
    ask "$items?text=ahre"
    ask "$items?isDone=true"
    ask "$items?label=%27%20OR%201%3D1"
    ask "$items?limit=0"
    ask "$items?sort=labels"
    echo "# history"
    token=$(curl -sS "$url/documents/Picnic/history" | sed 's/.*"token":"\(.*\)"}/\1/')
    ask -o /dev/null -X DELETE "$items/1"
    ask "$url/documents/Picnic/history?after=$token" | sed -E 's/"(date|token)":"[^"]*"/"\1":…/g'
    ask "$url/documents/Picnic/history?after=1"
    ask "$url/documents/Copy/history?after=99-0000" | cut -d, -f1
    echo "# documents"
    ask -X DELETE "$url/documents/Copy"
    ask "$url/documents/Copy"
    curl -sS "$url/documents" | grep -o '"name":"[^"]*"'
    ask "$(grep -o 'http:.*' other-output)/documents/Picnic" | cut -d, -f1
} >answers 2>&1
diff answers - <<'END' || fail "The server has answered something else (<)."
# names
422
422
422
422
422
422
422
422
422
{"code":"invalidValue","message":"A name has 1 to 200 bytes, no slash or control character, and no full stop at its start."}
422
201
{"code":"alreadyExists","message":"“Café #1” already exists."}
409
Café #1.checklist
Copy.checklist
Picnic.checklist
# what is missing or taken
{"code":"notFound","message":"“None.checklist” does not exist."}
404
{"code":"notFound","message":"The object Item/p9 does not exist."}
404
{"code":"notFound","message":"There is nothing at “/documents/Picnic/items/x”."}
404
{"code":"notFound","message":"There is nothing at “/documents/Picnic/items/1/x”."}
404
{"code":"notFound","message":"There is nothing at “/documents/Picnic/items/99999999999999”."}
404
{"code":"notFound","message":"There is nothing at “/documents/Picnic/x”."}
404
{"code":"notFound","message":"There is nothing at “/x”."}
404
{"code":"alreadyExists","message":"“Picnic” already exists."}
409
{"code":"methodNotAllowed","message":"PATCH is not allowed here."}
405
# bodies
{"code":"badRequest","message":"The body is not an item such as {\"title\": \"Bread\", \"labels\": []}."}
400
{"code":"validation","message":"Item/p4: “Item.title” is too short: its length is 0, the minimum is 1.","property":"title"}
422
413
{"code":"tooLarge","message":"The body has more than 65536 bytes."}
413
{"code":"tooLarge","message":"The body has more than 65536 bytes."}
413
{"code":"tooLarge","message":"The body has more than 16777216 bytes."}
413
{"code":"invalidArchive","message":"The body is not the archive of a checklist."}
422
{"code":"alreadyExists","message":"“Copy” already exists."}
409
{"code":"notFound","message":"“New.checklist” does not exist."}
404
# conditions
304
{"isDone":false,"labels":["drinks","food"],"number":2,"priority":3,"title":"Juice"}
200
{"code":"preconditionFailed","message":"The item has changed; its ETag is …
412
204
{"code":"notFound","message":"The object Item/p2 does not exist."}
404
# queries
201
201
201
{"items":[{"isDone":true,"labels":[],"number":1,"priority":3,"title":"Bread"},{"due":"2026-12-24T18:00:00Z","isDone":false,"labels":[],"number":7,"priority":3,"title":"Birne"}],"total":4}
200
{"items":[{"due":"2026-12-24T18:00:00Z","isDone":false,"labels":[],"number":6,"priority":3,"title":"Apfel"},{"due":"2026-12-24T18:00:00Z","isDone":false,"labels":[],"number":5,"priority":3,"title":"Ähre"}],"total":4}
200
{"items":[],"total":4}
200
{"items":[{"due":"2026-12-24T18:00:00Z","isDone":false,"labels":[],"number":5,"priority":3,"title":"Ähre"}],"total":1}
200
{"items":[{"isDone":true,"labels":[],"number":1,"priority":3,"title":"Bread"}],"total":1}
200
{"items":[],"total":0}
200
{"code":"badRequest","message":"“limit=0” cannot be part of a query for items."}
400
{"code":"badRequest","message":"“sort=labels” cannot be part of a query for items."}
400
# history
204
{"changes":[{"date":…,"item":1,"kind":"delete"}],"token":…}
200
{"code":"badRequest","message":"“1” is not a token."}
400
{"code":"historyTokenExpired"
410
# documents
204
{"code":"notFound","message":"“Copy.checklist” does not exist."}
404
"name":"Café #1"
"name":"Picnic"
{"code":"locked"
503
END
kill "$other"
other=
echo "The server answers other requests as it should."

# --- What was acknowledged is on the disk

# Adds items to twelve documents in turn until the server does not answer, and notes the titles that were acknowledged.
client() {
    local number=0
    while true; do
        number=$((number + 1))
        [[ $(curl -s -o /dev/null -w '%{http_code}' -d "{\"title\": \"$1-$number\"}" \
            "$url/documents/D$((number % 12 + 1))/items") == 201 ]] || return 0
        echo "$1-$number" >>"acknowledged-$1"
    done
}

acknowledged() { cat acknowledged-*; }
enough() { (($(acknowledged 2>/dev/null | wc -l) >= $1)); }
titles() { curl -sS "$url/documents/D[1-12]" | grep -o '"title":"[^"]*"' | cut -d'"' -f4; }

ask -o /dev/null -X PUT "$url/documents/D[1-12]" >created
count=0
for signal in KILL KILL TERM; do
    clients=()
    count=$((count + 100))
    for number in $(seq 8); do
        client "$signal$count.$number" &
        clients+=($!)
    done
    await enough "$count"
    end "$signal"
    wait "${clients[@]}"
    if [[ $signal == TERM ]]; then
        ((status == 0)) || fail "SIGTERM has ended the server with status $status."
        rest=$(find documents -name '*-wal' -o -name '*-shm' -o -name '.*')
        [[ -z $rest ]] || fail "The server has left $rest."
    fi
    start
    lost=$(comm -23 <(acknowledged | sort) <(titles | sort))
    [[ -z $lost ]] || fail "After SIG$signal, $(wc -l <<<"$lost") items are missing, such as $(head -1 <<<"$lost")."
done

for number in $(seq 5); do
    ask -o /dev/null -X PUT "$url/documents/E$number"
    ask -d '{"title": "Salt"}' "$url/documents/E$number/items"
    end KILL
    start
    ask "$url/documents/E$number/items/1"
done >answers
LC_ALL=C sort answers | uniq -c | diff - <(
    echo '      5 200'
    echo '     10 201'
    echo '     10 {"isDone":false,"labels":[],"number":1,"priority":3,"title":"Salt"}'
) || fail "The server was killed after it had acknowledged writes, and has lost some (<)."
echo "What the server has acknowledged is on the disk after SIGKILL and SIGTERM."
