import Foundation
import Quire

extension OfflineEdits {
    private static let notes = ManagedObjectModel {
        Entity("Note") {
            Attribute("name", .string)
            ToMany("tags", "Tag", inverse: "notes")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("notes", "Note", inverse: "tags")
        }
        Entity("Person") {
            Attribute("name", .string)
            Attribute("age", .integer16)
            ToOne("car", "Car", inverse: "owner")
            ToOne("spouse", "Person", inverse: "spouse")
            ToOne("parent", "Person", inverse: "children")
            ToMany("children", "Person", inverse: "parent").deleteRule(.cascade)
        }
        Entity("Car") {
            Attribute("name", .string)
            ToOne("owner", "Person", inverse: "car")
        }
        Entity("Room") {
            Attribute("name", .string)
            ToMany("guests", "Guest", inverse: "room").deleteRule(.deny)
        }
        Entity("Guest") {
            Attribute("name", .string)
            ToOne("room", "Room", inverse: "guests")
        }
    }

    private static let music = ManagedObjectModel {
        Entity("Album") {
            Attribute("name", .string)
            ToMany("tracks", "Track", inverse: "album").ordered()
        }
        Entity("Track") {
            Attribute("name", .string)
            ToOne("album", "Album", inverse: "tracks")
            ToMany("playlists", "Playlist", inverse: "tracks").ordered()
        }
        Entity("Playlist") {
            Attribute("name", .string)
            ToMany("tracks", "Track", inverse: "playlists").ordered()
        }
    }

    static let relationships = [
        // Tags of both are kept, from either end. SyncKit issue 174: many-to-many relationships cannot be synchronized at all.
        OfflineEdits(
            "bothAddTags", notes,
            start: {
                let tag = try $0.insert("Tag", "old")
                try $0.insert("Note", "n", ["tags": Set([tag])])
                try $0.insert("Tag", "free")
            },
            [
                [
                    (0, { try $0.object("Note", "n").add($0.insert("Tag", "a"), to: "tags") }),
                    (1, { try $0.insert("Tag", "b").add($0.object("Note", "n"), to: "notes") }),
                    (
                        1,
                        { try $0.object("Note", "n").remove($0.object("Tag", "old"), from: "tags") }
                    ),
                    (0, { try $0.object("Note", "n").add($0.object("Tag", "free"), to: "tags") }),
                    (1, { try $0.object("Tag", "free").add($0.object("Note", "n"), to: "notes") }),
                ]
            ],
            rows: [
                "Note n tags{a b free}", "Tag a notes{n}", "Tag b notes{n}", "Tag free notes{n}",
                "Tag old",
            ]),
        // One deletes a tag, the other gives it to a note.
        OfflineEdits(
            "aTagIsDeletedAndIsGivenToANote", notes,
            start: {
                try $0.insert("Tag", "a")
                try $0.insert("Tag", "b")
                try $0.insert("Note", "n")
            },
            [
                [
                    (0, { try $0.delete("Tag", "a") }),
                    (
                        1,
                        {
                            try $0.object("Note", "n")["tags"] = Set([
                                $0.object("Tag", "a"), $0.object("Tag", "b"),
                            ])
                        }
                    ),
                ]
            ],
            rows: ["Note n tags{b}", "Tag b notes{n}"]),
        // A car that two people get; a person who gets two cars.
        OfflineEdits(
            "oneToOneOnBothSides", notes,
            start: {
                for name in ["Ada", "Bob"] { try $0.insert("Person", name) }
                for name in ["red", "blue"] { try $0.insert("Car", name) }
            },
            [
                [
                    (0, { try $0.object("Car", "red")["owner"] = $0.object("Person", "Ada") }),
                    (1, { try $0.object("Person", "Ada")["car"] = $0.object("Car", "blue") }),
                ],
                [
                    (0, { try $0.object("Car", "red")["owner"] = $0.object("Person", "Bob") }),
                    (1, { try $0.object("Car", "blue")["owner"] = $0.object("Person", "Bob") }),
                    (1, { try $0.object("Person", "Bob")["age"] = 30 }),
                ],
            ],
            rows: ["Car blue owner→Bob", "Car red", "Person Ada", "Person Bob age=30 car→blue"]),
        // The car whose link won is given to somebody else; the link that had lost takes effect.
        OfflineEdits(
            "oneToOneIsLeft", notes,
            start: {
                for name in ["Ada", "Bob"] { try $0.insert("Person", name) }
                for name in ["red", "blue"] { try $0.insert("Car", name) }
            },
            [
                [
                    (0, { try $0.object("Car", "red")["owner"] = $0.object("Person", "Ada") }),
                    (1, { try $0.object("Person", "Ada")["car"] = $0.object("Car", "blue") }),
                ],
                [(1, { try $0.object("Car", "blue")["owner"] = $0.object("Person", "Bob") })],
            ],
            rows: [
                "Car blue owner→Bob", "Car red owner→Ada", "Person Ada car→red",
                "Person Bob car→blue",
            ]),
        // Two exchange their cars while another sells one of them.
        OfflineEdits(
            "oneToOneIsExchanged", notes,
            start: {
                for (name, car) in [("Ada", "red"), ("Bob", "blue")] {
                    try $0.insert("Person", name, ["car": $0.insert("Car", car)])
                }
                try $0.insert("Person", "Eve")
            },
            [
                [
                    (
                        0,
                        {
                            let (ada, bob) = (
                                try $0.object("Person", "Ada"), try $0.object("Person", "Bob")
                            )
                            let (red, blue) = (
                                try $0.object("Car", "red"), try $0.object("Car", "blue")
                            )
                            (ada["car"], bob["car"]) = (blue, red)
                        }
                    ),
                    (1, { try $0.object("Car", "red")["owner"] = $0.object("Person", "Eve") }),
                ]
            ],
            rows: [
                "Car blue owner→Ada", "Car red owner→Eve", "Person Ada car→blue", "Person Bob",
                "Person Eve car→red",
            ],
            conflicts: ["value Car.owner: Bob lost, Eve kept"]),
        // Three links of a relationship with itself that overlap: the pair that has both ends stays.
        OfflineEdits(
            "spousesOnThreeSides", notes,
            start: { for name in ["a", "b", "c", "d"] { try $0.insert("Person", name) } },
            [
                [
                    (0, { try $0.object("Person", "a")["spouse"] = $0.object("Person", "b") }),
                    (1, { try $0.object("Person", "b")["spouse"] = $0.object("Person", "c") }),
                    (2, { try $0.object("Person", "c")["spouse"] = $0.object("Person", "d") }),
                ]
            ],
            rows: ["Person a", "Person b", "Person c spouse→d", "Person d spouse→c"],
            conflicts: [
                "value Person.spouse: a lost, c kept", "value Person.spouse: b lost, d kept",
            ]),
        // A cycle: each moves one folder into the other's. Kleppmann and others, “A highly-available move operation for replicated trees”.
        OfflineEdits(
            "aTreeThatBecomesACycle", notes,
            start: {
                let root = try $0.insert("Person", "root")
                try $0.insert("Person", "x", ["parent": root])
                try $0.insert("Person", "y", ["parent": root])
            },
            [
                [
                    (0, { try $0.object("Person", "x")["parent"] = $0.object("Person", "y") }),
                    (1, { try $0.object("Person", "y")["parent"] = $0.object("Person", "x") }),
                ],
                [(0, { try $0.delete("Person", "x") })],
            ],
            rows: ["Person root"]),
        // A deletion that the delete rule allowed, because the room was empty: its guest is without one. CloudKit does not take “Deny”.
        OfflineEdits(
            "aRoomIsDeletedAndGetsAGuest", notes,
            start: { try $0.insert("Room", "1") },
            [
                [
                    (0, { try $0.delete("Room", "1") }),
                    (1, { try $0.insert("Guest", "g", ["room": $0.object("Room", "1")]) }),
                ]
            ],
            rows: ["Guest g"]),
        // A move of one side, a removal from the list of the other, and a new object in both lists.
        OfflineEdits(
            "aGuestIsMovedOnThreeSides", notes,
            start: {
                for name in ["1", "2", "3"] { try $0.insert("Room", name) }
                try $0.insert("Guest", "g", ["room": $0.object("Room", "1")])
            },
            [
                [
                    (0, { try $0.object("Room", "2").add($0.object("Guest", "g"), to: "guests") }),
                    (
                        1,
                        {
                            try $0.object("Room", "1").remove(
                                $0.object("Guest", "g"), from: "guests")
                        }
                    ),
                    (2, { try $0.object("Guest", "g")["room"] = $0.object("Room", "3") }),
                    (0, { try $0.insert("Guest", "h", ["room": $0.object("Room", "1")]) }),
                ]
            ],
            rows: [
                "Guest g room→3", "Guest h room→1", "Room 1 guests{h}", "Room 2",
                "Room 3 guests{g}",
            ],
            conflicts: [
                "value Guest.room: 2 lost, 3 kept", "value Guest.room: null lost, 3 kept",
            ]),
    ]

    @MainActor private static func album(_ replica: Replica, _ names: [String]) throws {
        let album = try replica.insert("Album", "A")
        album["tracks"] = try names.map { try replica.insert("Track", $0) }
    }

    /// Orders the tracks of the album by their names.
    private static func order(_ names: [String]) -> Edit {
        { replica in
            let tracks = try names.map {
                try replica.find("Track", $0) ?? replica.insert("Track", $0)
            }
            try replica.object("Album", "A")["tracks"] = tracks
        }
    }

    static let orders = [
        // New tracks at the same place: the order is the same on all devices. Realm Core issue 6191.
        OfflineEdits(
            "bothAppend", music, start: { try album($0, ["a", "b"]) },
            [
                [
                    (0, order(["a", "b", "x"])), (1, order(["a", "b", "y"])),
                    (1, order(["a", "b", "y", "z"])),
                ]
            ],
            rows: ["Album A tracks[a b x y z]"]
                + ["a", "b", "x", "y", "z"].map { "Track \($0) album→A" }),
        // Moved tracks stay where they were moved to.
        OfflineEdits(
            "bothMove", music, start: { try album($0, ["a", "b", "c", "d"]) },
            [[(0, order(["b", "c", "d", "a"])), (1, order(["c", "a", "b", "d"]))]],
            rows: ["Album A tracks[c b d a]"] + ["a", "b", "c", "d"].map { "Track \($0) album→A" }),
        OfflineEdits(
            "theSameTrackIsMovedByAll", music, start: { try album($0, ["a", "b", "c", "d"]) },
            [
                [
                    (0, order(["b", "a", "c", "d"])), (1, order(["b", "c", "d", "a"])),
                    (2, order(["b", "c", "a", "d"])),
                ]
            ],
            rows: ["Album A tracks[b c a d]"] + ["a", "b", "c", "d"].map { "Track \($0) album→A" }),
        // One moves a track, the other deletes it or takes it out.
        OfflineEdits(
            "tracksAreMovedAndRemoved", music, start: { try album($0, ["a", "b", "c", "d"]) },
            [
                [
                    (0, order(["d", "c", "a", "b"])),
                    (1, { try $0.delete("Track", "c") }),
                    (1, order(["a", "b"])),
                ]
            ],
            rows: ["Album A tracks[a b]", "Track a album→A", "Track b album→A", "Track d"]),
        // Several shuffles of each, as in Realm Core issue 6191, and a new track.
        OfflineEdits(
            "bothShuffleAndShuffleAgain", music,
            start: { try album($0, ["a", "b", "c", "d", "e"]) },
            [
                [
                    (0, order(["e", "d", "c", "b", "a"])), (1, order(["b", "a", "d", "c", "e"])),
                    (0, order(["a", "e", "b", "d", "c"])),
                    (1, order(["c", "e", "a", "n", "b", "d"])),
                ],
                [
                    (0, order(["a", "b", "c", "d", "e", "n"])),
                    (1, { try $0.insert("Playlist", "p") }),
                ],
            ],
            rows: ["Album A tracks[a b c d e n]", "Playlist p"]
                + ["a", "b", "c", "d", "e", "n"].map { "Track \($0) album→A" }),
        // Many-to-many, ordered on both sides. Ensembles issue 90: the order after a rebase may be another.
        OfflineEdits(
            "playlistsOnBothSides", music,
            start: {
                let tracks = try ["a", "b", "c"].map { [replica = $0] in
                    try replica.insert("Track", $0)
                }
                try $0.insert("Playlist", "p", ["tracks": tracks])
                try $0.insert("Playlist", "q", ["tracks": [tracks[2]]])
            },
            [
                [
                    (
                        0,
                        {
                            try $0.object("Playlist", "q")["tracks"] = [
                                $0.object("Track", "a"), $0.object("Track", "c"),
                            ]
                        }
                    ),
                    (
                        1,
                        {
                            try $0.object("Track", "b")["playlists"] = [
                                $0.object("Playlist", "q"), $0.object("Playlist", "p"),
                            ]
                        }
                    ),
                    (
                        2,
                        {
                            try $0.object("Playlist", "p")["tracks"] = [
                                $0.object("Track", "c"), $0.object("Track", "b"),
                                $0.object("Track", "a"),
                            ]
                        }
                    ),
                ]
            ],
            rows: [
                "Playlist p tracks[c b a]", "Playlist q tracks[a c b]", "Track a playlists[p q]",
                "Track b playlists[q p]", "Track c playlists[p q]",
            ]),
    ]
}
