import Foundation
import Quire
import Testing

/// Imports again and again: objects with unique codes, inserted anew each time with their relationships.
@MainActor @Suite struct ImportSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Album") {
            Attribute("name", .string)
            Attribute("title", .string)
            ToMany("tracks", "Track", inverse: "album").ordered().deleteRule(.cascade)
            ToMany("genres", "Genre", inverse: "albums")
            ToOne("cover", "Cover", inverse: "album").deleteRule(.cascade)
            Unique("name")
        }
        Entity("Track") {
            Attribute("name", .string)
            Attribute("title", .string)
            ToOne("album", "Album", inverse: "tracks").required()
            Unique("name")
        }
        Entity("Genre") {
            Attribute("name", .string)
            ToMany("albums", "Album", inverse: "genres")
            Unique("name")
        }
        Entity("Cover") {
            Attribute("name", .string)
            ToOne("album", "Album", inverse: "cover").required()
            Unique("name")
        }
    }

    /// Inserts an album with all that belongs to it, as an import does that looks nothing up.
    private func insertAlbum(
        _ name: String, tracks: [String], genres: [String], cover: String? = nil,
        title: String = "", in context: ManagedObjectContext
    ) throws {
        let album = try context.insertNamed("Album", name, ["title": title])
        album["tracks"] = try tracks.map { try context.insertNamed("Track", $0, ["title": title]) }
        album["genres"] = Set(try genres.map { try context.insertNamed("Genre", $0) })
        if let cover { album["cover"] = try context.insertNamed("Cover", cover) }
    }

    /// The same file is imported twice, by new objects: there is each object once, with whole relationships.
    /// Source: RestKit #2501 “Unique constrians of CoreData not updating the latest entry” (entities with relationships),
    /// #661 “Duplicate Objects in Core Data when Mapping Nested Objects”; dorianroy.com/blog/archives/261.
    @Test(
        arguments: SituationStore.allCases,
        [
            MergePolicy.Kind.mergeByPropertyObjectTrump, .overwrite, .mergeByPropertyStoreTrump,
            .rollback,
        ])
    func theSameImportTwiceGivesEachObjectOnce(
        store: SituationStore, policy: MergePolicy.Kind
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.mergePolicy = MergePolicy(merge: policy)
            for round in 0..<3 {
                try insertAlbum(
                    "A", tracks: ["1", "2"], genres: ["g", "h"], cover: "c", title: "\(round)",
                    in: context)
                try context.save()
                if round == 1 { context.reset() }
                let album = try context.findNamed("Album", "A")
                #expect(album.memberNames("tracks") == "12", "\(round)")
                #expect(album.memberNames("genres") == "gh", "\(round)")
                #expect(album.destinationName("cover") == "c", "\(round)")
                for (entity, names) in [
                    ("Album", "A"), ("Track", "12"), ("Genre", "gh"), ("Cover", "c"),
                ] {
                    #expect(try context.foundNames(entity) == names, "\(round)")
                }
                for track in album.objects("tracks") { #expect(track.object("album") === album) }
                let isNew = policy == .mergeByPropertyObjectTrump || policy == .overwrite
                #expect(album["title"] as? String == (isNew ? "\(round)" : "0"))
            }
        }
    }

    /// A playlist is imported again in another order, with new members and without some: the order is that of the file, and
    /// what is not in the file stays behind what it followed.
    /// Source: Groot #53 “Preserving order”; RestKit #2501 “Unique constrians of CoreData not updating the latest entry”.
    @Test(
        arguments: SituationStore.allCases,
        [
            (["2", "1"], "231"), (["1", "2", "3"], "123"), (["1", "2"], "123"),
            (["3", "n", "1"], "3n12"), (["n", "3", "5", "2"], "1n352"), (["5", "3"], "1253"),
            (["5", "n", "4"], "1235n4"),
        ])
    func anImportAgainGivesTheOrderOfItsFile(
        store: SituationStore, imported: ([String], String)
    ) async throws {
        for (policy, isToOne) in [
            (MergePolicy.mergeByPropertyObjectTrump, false), (.overwrite, false),
            (.overwrite, true),
            (.mergeByPropertyStoreTrump, false),
        ] {
            try await withSituation(store, Self.model) { container in
                let context = container.viewContext
                try insertAlbum("A", tracks: ["1", "2", "3"], genres: [], in: context)
                try insertAlbum("B", tracks: ["4", "5"], genres: [], in: context)
                try context.save()
                context.reset()
                context.mergePolicy = policy
                if isToOne {
                    let album = try context.insertNamed("Album", "A")
                    for name in imported.0 {
                        try context.insertNamed("Track", name)["album"] = album
                    }
                } else {
                    try insertAlbum("A", tracks: imported.0, genres: [], in: context)
                }
                try context.save()
                let isKept = policy.mergeType == .mergeByPropertyStoreTrump
                for isReset in [false, true] {
                    if isReset { context.reset() }
                    let tracks = try context.findNamed("Album", "A").memberNames("tracks")
                    if isKept {
                        #expect(tracks.filter { "123".contains($0) } == "123")
                    } else {
                        #expect(tracks == imported.1, "\(policy)")
                    }
                }
            }
        }
    }

    /// The second file has the album with other tracks, in another order, one of which is of another album; genres are
    /// shared with an album that is not in the file.
    /// Source: RestKit #1263 “RKReplaceAssignmentPolicy and identificationAttributes”; Realm #1370 “addOrUpdateObject leaves
    /// orphan child objects”.
    @Test(arguments: SituationStore.allCases)
    func aSecondImportMovesTracksAndKeepsWhatIsNotInIt(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.mergePolicy = .mergeByPropertyObjectTrump
            try insertAlbum("A", tracks: ["1", "2", "3"], genres: ["g"], cover: "c", in: context)
            try insertAlbum("B", tracks: ["4", "5"], genres: ["g", "h"], in: context)
            try context.save()
            let a = try context.findNamed("Album", "A")
            let b = try context.findNamed("Album", "B")
            #expect(a.memberNames("tracks") == "123" && b.memberNames("tracks") == "45")
            var saves = container.saves.makeAsyncIterator()
            try await container.performBackgroundTask { other in
                other.mergePolicy = .mergeByPropertyObjectTrump
                let album = try other.insertNamed("Album", "A", ["title": "new"])
                album["tracks"] = try ["3", "5", "6"].map { try other.insertNamed("Track", $0) }
                album["genres"] = Set(try ["h", "i"].map { try other.insertNamed("Genre", $0) })
                album["cover"] = try other.insertNamed("Cover", "d")
                do {
                    try other.save()
                } catch let error as QuireError {
                    // The old cover is without its album now; an import deletes it.
                    #expect(
                        error.code == .validation || error.code == .constraintConflict, "\(error)")
                    other.delete(try other.findNamed("Cover", "c"))
                    try other.save()
                }
            }
            context.mergeChanges(from: try #require(await saves.next()))
            for isReset in [false, true] {
                if isReset { context.reset() }
                let a = try context.findNamed("Album", "A")
                let b = try context.findNamed("Album", "B")
                #expect(a["title"] as? String == "new")
                // Whether old members stay or not, each track is once, in one album.
                let (own, others) = (a.memberNames("tracks"), b.memberNames("tracks"))
                #expect(Set("356").isSubset(of: Set(own)) && others == "4", "\(own) \(others)")
                #expect(own.filter { "356".contains($0) } == "356")
                #expect(try context.foundNames("Track") == "123456")
                #expect(try context.foundNames("Genre") == "ghi")
                #expect(Set("hi").isSubset(of: Set(a.memberNames("genres"))))
                #expect(b.memberNames("genres") == "gh")
                #expect(a.destinationName("cover") == "d")
                for track in a.objects("tracks") { #expect(track.object("album") === a) }
            }
        }
    }

    /// A track is deleted and imported again with the same code in one save, for another album.
    /// Source: realm-js #1632 “Parent Child Relationship, Delete & create child ‘bug’”; objcio/core-data #2 “Crash on adding
    /// new moody after delete”.
    @Test(
        arguments: SituationStore.allCases, [MergePolicy.Kind.error, .mergeByPropertyObjectTrump])
    func anObjectThatIsDeletedAndInsertedAgainHasItsNewOwner(
        store: SituationStore, policy: MergePolicy.Kind
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.mergePolicy = MergePolicy(merge: policy)
            try insertAlbum("A", tracks: ["1", "2", "3"], genres: ["g"], cover: "c", in: context)
            try insertAlbum("B", tracks: ["4"], genres: [], in: context)
            try context.save()
            context.delete(try context.findNamed("Track", "2"))
            let b = try context.findNamed("Album", "B")
            b.insert(try context.insertNamed("Track", "2"), into: "tracks", at: 0)
            // The album itself, too, with the same cover’s name and genre.
            context.delete(try context.findNamed("Album", "A"))
            try context.insertNamed("Album", "A")["cover"] = try context.insertNamed("Cover", "c")
            try context.findNamed("Album", "A")["genres"] = Set([
                try context.findNamed("Genre", "g")
            ])
            try context.save()
            for isReset in [false, true] {
                if isReset { context.reset() }
                #expect(try context.foundNames("Track") == "24")
                #expect(try context.findNamed("Album", "B").memberNames("tracks") == "24")
                let a = try context.findNamed("Album", "A")
                #expect(a.objects("tracks").isEmpty && a.destinationName("cover") == "c")
                #expect(try context.findNamed("Genre", "g").memberNames("albums") == "A")
                #expect(try context.foundNames("Cover") == "c")
            }
        }
    }
}
