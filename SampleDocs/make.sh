#!/bin/bash
# Makes the sample documents anew: Library.quire from books.csv, Notes.quire from the pictures. Only the stores'
# UUIDs differ from run to run.
#
# Usage: make.sh QUIRE
set -euo pipefail

quire_program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")"
quire() { "$quire_program" "$@"; }

rm -rf Library.quire Notes.quire

quire new Library.quire --template Library
quire import Library.quire Book books.csv
id() { quire fetch Library.quire Book --where "title == \"$1\"" --columns title --json | sed -nE 's/.*"id": "([^"]*)".*/\1/p'; }
quire insert Library.quire Loan "book=$(id Dracula)" friend=Friend/p1 \
    lentAt=2026-02-01 dueDate=2026-03-01 returnedAt=2026-02-20
quire insert Library.quire Loan "book=$(id Walden)" friend=Friend/p2 lentAt=2026-02-14 dueDate=2026-03-14
quire check Library.quire

quire new Notes.quire --template Notes
quire open Notes.quire <<'END'
insert Tag name=fractals
insert Tag name=games
insert Post title='Two fractals' body=@pictures/fractals.txt createdAt=2026-01-10T18:30:00Z modifiedAt=2026-01-11T08:00:00Z uuid=0E8F5A52-3C41-4B0B-9A38-6F0D5C1B7E21 tags=Tag/p2
insert Post title='An empty chessboard' body='White is on the right.' createdAt=2026-01-12T20:15:30.5Z modifiedAt=2026-01-12T20:15:30.5Z uuid=7A1B2C3D-9E8F-4D5C-8B7A-1C2D3E4F5A6B tags=Tag/p3
insert Attachment name='Mandelbrot set' mediaType=image/png data=@pictures/mandelbrot.png post=Post/p2
insert Attachment name='Julia set' mediaType=image/png data=@pictures/julia.png post=Post/p2
insert Attachment name=Chessboard mediaType=image/png data=@pictures/chessboard.png post=Post/p3
END
quire check Notes.quire
