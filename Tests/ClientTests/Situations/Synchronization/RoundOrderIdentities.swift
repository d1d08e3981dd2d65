import Foundation
import Quire

extension OfflineEdits {
    private static let tagged = ManagedObjectModel {
        Entity("Note") {
            Attribute("name", .string)
            ToMany("tags", "Tag", inverse: "notes")
        }
        Entity("Tag") {
            Attribute("name", .string)
            Attribute("color", .string)
            ToMany("notes", "Note", inverse: "tags")
            ToMany("uses", "Use", inverse: "tag").deleteRule(.cascade)
            Unique("name")
        }
        Entity("Use") {
            Attribute("name", .string)
            ToOne("tag", "Tag", inverse: "uses").required()
        }
        Entity("File") {
            Attribute("name", .string)
            Attribute("folder", .string)
            Attribute("path", .string)
            Unique("folder", "path")
        }
        Entity("Media") {
            Attribute("name", .string)
            Attribute("code", .string)
            Unique("code")
        }
        Entity("Photo", inherits: "Media") { Attribute("width", .integer32) }
        Entity("Video", inherits: "Media") { Attribute("length", .integer32) }
        Entity("Category") {
            Attribute("name", .string)
            Attribute("code", .string)
            Attribute("note", .string)
            ToMany("items", "Item", inverse: "category")
        }.userInfo(["syncIdentity": .string("code")])
        Entity("Item") {
            Attribute("name", .string)
            ToOne("category", "Category", inverse: "items")
        }
    }

    static let identities = [
        // The same tag on three devices, each with notes that have it. Apple, “Detecting and Removing Duplicate Records”; DefraDB issue
        // 5059 (the merge of unique values never converges).
        OfflineEdits(
            "theSameTagOnThreeSides", tagged, start: { _ in },
            [
                (0..<3).map { machine in
                    (
                        machine,
                        {
                            let tag = try $0.insert("Tag", "home", ["color": "\(machine)"])
                            try $0.insert("Note", "n\(machine)", ["tags": Set([tag])])
                            try $0.insert("Use", "u\(machine)", ["tag": tag])
                        }
                    )
                }
            ],
            rows: ["Tag home color=0 notes{n0 n1 n2} uses{u0 u1 u2}"]
                + (0..<3).flatMap { ["Note n\($0) tags{home}", "Use u\($0) tag→home"] },
            conflicts: [
                "hidden Tag.name home: null lost, null kept",
                "hidden Tag.name home: null lost, null kept",
            ]),
        // The duplicate that stands for the other is deleted while the other side uses it.
        OfflineEdits(
            "theTagThatStandsForAnotherIsDeletedAndUsed", tagged,
            start: { try $0.insert("Note", "n") },
            [
                [(0, { try $0.insert("Tag", "home") }), (1, { try $0.insert("Tag", "home") })],
                [
                    (0, { try $0.delete("Tag", "home") }),
                    (1, { try $0.object("Note", "n")["tags"] = Set([$0.object("Tag", "home")]) }),
                    (1, { try $0.insert("Use", "u", ["tag": $0.object("Tag", "home")]) }),
                ],
            ],
            rows: ["Note n"],
            conflicts: ["hidden Use.tag u: null lost, null kept"]),
        // One renames a tag to the name that the other inserts; a third inserts the name that has become free.
        OfflineEdits(
            "aTagIsRenamedToOneThatIsInserted", tagged,
            start: { try $0.insert("Tag", "old", ["color": "red"]) },
            [
                [
                    (0, { try $0.object("Tag", "old")["name"] = "new" }),
                    (1, { try $0.insert("Tag", "new", ["color": "blue"]) }),
                    (0, { try $0.insert("Tag", "old", ["color": "green"]) }),
                    (2, { try $0.object("Tag", "old")["color"] = "pink" }),
                ]
            ],
            rows: ["Tag new color=pink", "Tag old color=green"],
            conflicts: ["hidden Tag.name new: null lost, null kept"]),
        // Two tags exchange their names while the other side edits them.
        OfflineEdits(
            "twoTagsExchangeTheirNames", tagged,
            start: {
                try $0.insert("Tag", "a", ["color": "1"])
                try $0.insert("Tag", "b", ["color": "2"])
            },
            [
                [
                    (
                        0,
                        {
                            let (a, b) = (try $0.object("Tag", "a"), try $0.object("Tag", "b"))
                            (a["name"], b["name"]) = ("b", "a")
                        }
                    ),
                    (1, { try $0.object("Tag", "a")["color"] = "3" }),
                    (1, { try $0.insert("Use", "u", ["tag": $0.object("Tag", "b")]) }),
                ]
            ],
            rows: ["Tag a color=2 uses{u}", "Tag b color=3", "Use u tag→a"]),
        // Deleted and inserted again with the same unique value: cr-sqlite issue 271, pointfreeco/sqlite-data issue 418.
        OfflineEdits(
            "aTagIsReplacedWhileAnotherUsesIt", tagged,
            start: {
                let tag = try $0.insert("Tag", "home", ["color": "1"])
                try $0.insert("Note", "m", ["tags": Set([tag])])
                try $0.insert("Note", "n")
            },
            [
                [
                    (
                        0,
                        {
                            try $0.delete("Tag", "home")
                            try $0.insert("Tag", "home", ["color": "2"])
                        }
                    ),
                    (1, { try $0.object("Note", "n")["tags"] = Set([$0.object("Tag", "home")]) }),
                ],
                [(1, { try $0.object("Tag", "home")["color"] = "3" })],
            ],
            rows: ["Note m", "Note n", "Tag home color=3"]),
        // One inserts a tag and deletes it before it is sent; the other's is the only one.
        OfflineEdits(
            "aTagIsInsertedAndDeletedWhileTheOtherInsertsIt", tagged, start: { _ in },
            [
                [
                    (0, { try $0.insert("Tag", "home", ["color": "1"]) }),
                    (1, { try $0.insert("Tag", "home", ["color": "2"]) }),
                    (0, { try $0.delete("Tag", "home") }),
                ]
            ],
            rows: ["Tag home color=2"]),
        // The older one gets another name: the newer one appears with all that it had.
        OfflineEdits(
            "theOlderTagIsRenamed", tagged, start: { _ in },
            [
                (0..<2).map { machine in
                    (
                        machine,
                        {
                            let tag = try $0.insert("Tag", "home", ["color": "\(machine)"])
                            try $0.insert("Note", "n\(machine)", ["tags": Set([tag])])
                        }
                    )
                },
                [
                    (1, { try $0.object("Tag", "home")["name"] = "house" }),
                    (0, { try $0.insert("Use", "u", ["tag": $0.object("Tag", "home")]) }),
                ],
            ],
            rows: [
                "Tag house color=0 notes{n0} uses{u}", "Tag home color=1 notes{n1}",
                "Note n0 tags{house}", "Note n1 tags{home}", "Use u tag→house",
            ]),
        // Two attributes are unique together: each is changed on one side. Mergin Maps geodiff issue 210.
        OfflineEdits(
            "twoAttributesThatAreUniqueTogether", tagged,
            start: {
                try $0.insert("File", "first", ["folder": "a", "path": "x"])
                try $0.insert("File", "second", ["folder": "b", "path": "y"])
            },
            [
                [
                    (0, { try $0.object("File", "second")["folder"] = "a" }),
                    (1, { try $0.object("File", "second")["path"] = "x" }),
                    (0, { try $0.insert("File", "third", ["folder": "a"]) }),
                    (1, { try $0.insert("File", "fourth", ["folder": "a"]) }),
                ]
            ],
            rows: [
                "File first folder=a path=x", "File fourth folder=a", "File third folder=a",
            ],
            conflicts: ["hidden File.folder,path second: null lost, null kept"]),
        // A value that is unique in all subentities.
        OfflineEdits(
            "subentitiesWithOneUniqueValue", tagged, start: { _ in },
            [
                [
                    (0, { try $0.insert("Photo", "p", ["code": "1", "width": 100]) }),
                    (1, { try $0.insert("Video", "v", ["code": "1", "length": 5]) }),
                ],
                [(0, { try $0.object("Photo", "p")["code"] = "2" })],
            ],
            rows: ["Photo p code=2 width=100", "Video v code=1 length=5"]),
        // Categories that each device inserts at its first start: Ensembles issue 196.
        OfflineEdits(
            "seedsOnThreeSides", tagged, start: { _ in },
            [
                (0..<3).map { machine in
                    (
                        machine,
                        {
                            let category = try $0.insert("Category", "Home", ["code": "h"])
                            if machine == 1 { category["note"] = "mine" }
                            try $0.insert("Item", "i\(machine)", ["category": category])
                        }
                    )
                }
            ],
            rows: ["Category Home code=h items{i0 i1 i2} note=mine"]
                + (0..<3).map { "Item i\($0) category→Home" }),
        // One deletes a seed while the other edits it and a third inserts it at its first start.
        OfflineEdits(
            "aSeedIsDeletedAndEdited", tagged,
            start: { try $0.insert("Category", "Home", ["code": "h"]) },
            [
                [
                    (0, { try $0.delete("Category", "Home") }),
                    (1, { try $0.object("Category", "Home")["note"] = "mine" }),
                ],
                [
                    (0, { try $0.insert("Category", "Home", ["code": "h", "note": "again"]) }),
                    (1, { try $0.insert("Item", "i") }),
                ],
            ],
            rows: ["Category Home code=h note=again", "Item i"]),
    ]
}
