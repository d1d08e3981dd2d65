# What the demonstrations have in common: sourced, with the path of the command as the first argument.

samples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
quire_program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")

quire() { "$quire_program" "$@"; }

# Prints a command and runs it.
run() {
    local word line="\$"
    for word in "$@"; do
        case $word in
            *[!A-Za-z0-9_./:=,%+-]*) line+=" '$word'" ;;
            *) line+=" $word" ;;
        esac
    done
    echo "$line"
    "$@"
    echo
}

title() { printf '── %s ──\n' "$1"; }

fail() {
    echo "$(basename "$0" .sh): $1" >&2
    exit 1
}

# Fails unless two texts are the same.
expect() { [ "$2" = "$3" ] || fail "$1: expected $2, but it is $3"; }

# Fails unless the documents of two machines are whole and the same.
expect_same() {
    run quire diff ada/Library.quire grace/Library.quire --exit-code || fail "the documents differ"
    for machine in ada grace; do
        quire check $machine/Library.quire >/dev/null || fail "$machine's document is not whole"
    done
}
