#!/bin/bash
# Makes the sample documents anew; README.md describes them. UUIDs of stores, dates of saves and what is encrypted
# differ from run to run.
#
# Usage: make.sh QUIRE
set -euo pipefail

quire_program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")"
quire() { "$quire_program" "$@"; }
templates=../Sources/QuireDocuments/Resources/Templates
export QUIRE_TEMPLATES=$templates

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf Library.quire Notes.quire Diary.quire Recipes.xml Journal.quire Garden.quire Contacts.sqlite Contacts.momd \
    Inventory.tar.zst

# Library.quire: hundreds of books, each with a cover. The model is that of the template, with covers.
model=$work/Library.xcdatamodeld
cp -r $templates/Library/Model.xcdatamodeld "$model"
cover='<attribute name="cover" optional="YES" attributeType="Binary" allowsExternalBinaryDataStorage="YES"/>'
sed -i "/<attribute name=\"addedAt\"/a\\        $cover" "$model/Model.xcdatamodel/contents"
quire new Library.quire --model "$model"
quire import Library.quire Book library.csv
books=$(quire fetch Library.quire Book --count)
mkdir "$work/covers"
pictures/make-pictures.py "$work/covers" "$books"
id() { quire fetch Library.quire Book --where "title == \"$1\"" --columns title --json | sed -nE 's/.*"id": "([^"]*)".*/\1/p'; }
dracula=$(id Dracula)
walden=$(id Walden)
{
    for ((number = 1; number <= books; number++)); do
        echo "set Book/p$number cover=@$work/covers/$number.png"
    done
    echo "insert Friend name=Ada email=ada@example.org"
    echo "insert Friend name=Grace email=grace@example.org"
    echo "save"
    echo "insert Loan book=$dracula friend=Friend/p1 lentAt=2026-02-01 dueDate=2026-03-01 returnedAt=2026-02-20"
    echo "insert Loan book=$walden friend=Friend/p2 lentAt=2026-02-14 dueDate=2026-03-14"
} | quire open Library.quire >"$work/session"

# Notes.quire: pictures in files of their own, and additional content.
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

# Diary.quire: sealed, with its key beside it. A key file must not be writable by others.
chmod go-w Diary.key
quire new Diary.quire --template Journal --class complete --key-file Diary.key
quire insert Diary.quire Entry date=2026-01-02T21:00:00Z title='A secret' mood=5 \
    text='Only the key file opens this document.' --key-file Diary.key

# Journal.quire: edited in several sessions, with versions in between.
quire new Journal.quire --template Journal
quire versions keep Journal.quire --name 'as it came'
quire insert Journal.quire Entry date=2026-01-03T20:30:00Z title=Snow mood=4 \
    text='The first snow of the year fell at noon, and was gone by four.' place=Place/p1
quire insert Journal.quire Entry date=2026-01-05T22:00:00Z title=Night mood=3 \
    text='Saw Jupiter with four moons through the old telescope.' place=Place/p1
quire versions keep Journal.quire --name 'first week'
quire set Journal.quire --where 'title == "Snow"' text='The first snow of the year fell at noon. By four it was gone.'
quire delete Journal.quire --where 'title == "First entry"' Entry

# Garden.quire: made with the first version of the model beside it.
quire new Garden.quire --model Garden.xcdatamodeld/Garden.xcdatamodel
quire open Garden.quire <<'END'
insert Bed name='South wall'
insert Bed name='Under the apple tree'
save
insert Plant name=Fig year=2019 remark='Wrapped in straw each winter.' bed=Bed/p1
insert Plant name='Wild garlic' year=2022 bed=Bed/p2
insert Plant name=Woodruff year=2023 remark='Needs shade.' bed=Bed/p2
END

# Recipes.xml: the objects of a document in one XML file, as Core Data writes it.
quire new "$work/Recipes.quire" --template Recipes
quire convert "$work/Recipes.quire" Recipes.xml --to xml

# Contacts.sqlite: a store with Core Data's tables only, and its compiled model.
quire new "$work/Contacts.quire" --template Contacts
quire convert "$work/Contacts.quire" Contacts.sqlite --to sqlite
quire model compile $templates/Contacts/Model.xcdatamodeld -o Contacts.momd
python3 -c 'import sqlite3; s = sqlite3.connect("Contacts.sqlite"); s.execute("DROP TABLE QUIRE_MODEL"); s.commit(); s.execute("VACUUM")'

# Inventory.tar.zst: a document packed for sending.
quire new "$work/Inventory.quire" --template Inventory
quire export "$work/Inventory.quire" Inventory.tar.zst

for document in Library.quire Notes.quire Journal.quire Garden.quire Recipes.xml Contacts.sqlite; do
    quire check $document
done
quire check Diary.quire --key-file Diary.key
