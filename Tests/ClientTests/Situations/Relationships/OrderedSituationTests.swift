import Foundation
import Quire
import Testing

/// Orders of playlists: moved, imported, thinned out, and edited by two at once.
@MainActor @Suite struct OrderedSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Playlist") {
            Attribute("name", .string)
            ToMany("songs", "Song", inverse: "playlists").ordered()
            ToMany("notes", "Note", inverse: "playlist").ordered().deleteRule(.cascade)
        }
        Entity("Song") {
            Attribute("name", .string)
            ToMany("playlists", "Playlist", inverse: "songs").ordered()
        }
        Entity("Note") {
            Attribute("name", .string)
            ToOne("playlist", "Playlist", inverse: "notes").required()
        }
    }

    /// A table view lets the user move rows; after a restart the rows are in the old order again.
    /// Source: RHManagedObject #23 “Relationship order”; encrypted-core-data #157, comment (sorting does not survive a restart).
    @Test(arguments: SituationStore.files)
    func rowsMovedInATableKeepTheirPlacesAfterARestart(store: SituationStore) async throws {
        try await withProgramFolder { folder in
            let container = try await store.container(Self.model, in: folder)
            let context = container.viewContext
            let list = try context.insertNamed("Playlist", "list")
            for name in ["a", "b", "c", "d", "e"] {
                list.add(try context.insertNamed("Song", name), to: "songs")
                list.add(try context.insertNamed("Note", name), to: "notes")
            }
            try context.save()
            for key in ["songs", "notes"] {
                list.moveObject(in: key, from: 0, to: 4)  // bcdea
                let view = try list.mutableOrderedSetValue(forKey: key)
                view.moveObjects(at: [1, 3], to: 0)  // cebda
                list.exchangeObjects(in: key, at: 0, and: 4)  // aebdc
                let first = try #require(list.objects(key).first)
                list.remove(first, from: key)
                list.insert(first, into: key, at: 2)  // ebadc
                #expect(list.memberNames(key) == "ebadc")
            }
            try context.save()
            #expect(list.memberNames("songs") == "ebadc")
            try container.close()

            let next = try await store.container(Self.model, in: folder)
            let found = try next.viewContext.findNamed("Playlist", "list")
            #expect(found.memberNames("songs") == "ebadc")
            #expect(found.memberNames("notes") == "ebadc")
            try next.close()
        }
    }

    /// Both sides of a many-to-many relationship are ordered, and each keeps an order of its own.
    /// Source: encrypted-core-data #158 “Added support for ordered to-many relationships” (edge cases mess up the order).
    @Test(arguments: SituationStore.files)
    func bothSidesOfAManyToManyRelationshipHaveOrdersOfTheirOwn(store: SituationStore) async throws
    {
        try await withProgramFolder { folder in
            let container = try await store.container(Self.model, in: folder)
            let context = container.viewContext
            let lists = try ["x", "y", "z"].map { try context.insertNamed("Playlist", $0) }
            let songs = try ["a", "b", "c"].map { try context.insertNamed("Song", $0) }
            for list in lists { list["songs"] = songs }
            try context.save()
            lists[0]["songs"] = [songs[2], songs[0], songs[1]]
            songs[0]["playlists"] = [lists[2], lists[1], lists[0]]
            songs[1].moveObject(in: "playlists", from: 2, to: 0)
            songs[2].insert(lists[1], into: "playlists", at: 0)
            lists[2].remove(songs[1], from: "songs")
            try context.save()
            lists[1].moveObject(in: "songs", from: 0, to: 1)
            try context.save()
            try container.close()

            let next = try await store.container(Self.model, in: folder)
            let again = next.viewContext
            for (name, order) in [("x", "cab"), ("y", "bac"), ("z", "ac")] {
                #expect((try again.findNamed("Playlist", name)).memberNames("songs") == order)
            }
            for (name, order) in [("a", "zyx"), ("b", "xy"), ("c", "yxz")] {
                #expect((try again.findNamed("Song", name)).memberNames("playlists") == order)
            }
            try next.close()
        }
    }

    /// An import sets a relationship to the order of the JSON: some objects are there already, some are new, some go.
    /// Source: WTAData #31 “Array Import Does Not Preserver Order”; Groot #53 “Preserving order”; DATAFilter #14.
    @Test(arguments: SituationStore.allCases)
    func anImportGivesARelationshipTheOrderOfTheFile(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let list = try context.insertNamed("Playlist", "list")
            list["notes"] = try ["1", "2", "3", "4"].map { try context.insertNamed("Note", $0) }
            try context.save()
            context.reset()
            // In the background, on objects that were not read there.
            try await container.performBackgroundTask { background in
                let list = try #require(try background.fetch(FetchRequest("Playlist")).first)
                var known: [String: ManagedObject] = [:]
                for note in try background.fetch(FetchRequest<ManagedObject>("Note")) {
                    known[note["name"] as? String ?? ""] = note
                }
                list["notes"] = try ["5", "3", "1", "6", "2"].map { name in
                    if let note = known.removeValue(forKey: name) { return note }
                    let note = try background.insertObject(entityName: "Note")
                    note["name"] = name
                    return note
                }
                known.values.forEach { background.delete($0) }
                try background.save()
            }
            let again = try context.findNamed("Playlist", "list")
            #expect(again.memberNames("notes") == "53162")
            #expect(try context.count(for: FetchRequest("Note")) == 5)
        }
    }

    /// One device moves a row while another one appends, inserts and deletes rows; afterwards both show one order.
    /// Source: Ensembles #90 “Rebasing ordered relationships may not produce the same order”.
    @Test(
        arguments: SituationStore.allCases,
        [MergePolicy.Kind.error, .mergeByPropertyObjectTrump, .mergeByPropertyStoreTrump])
    func ordersEditedInTwoContextsAreOneOrderAfterwards(
        store: SituationStore, policy: MergePolicy.Kind
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            context.mergePolicy = MergePolicy(merge: policy)
            context.automaticallyMergesChangesFromParent = policy == .error
            let list = try context.insertNamed("Playlist", "list")
            list["notes"] = try ["a", "b", "c", "d"].map { try context.insertNamed("Note", $0) }
            list["songs"] = try ["a", "b", "c", "d"].map { try context.insertNamed("Song", $0) }
            try context.save()
            #expect(list.memberNames("notes") == "abcd")

            for key in ["notes", "songs"] {
                list.moveObject(in: key, from: 0, to: 2)  // bcad
                list.insert(
                    try context.insertNamed(key == "notes" ? "Note" : "Song", "n"), into: key, at: 0
                )
            }
            try await container.performBackgroundTask { other in
                let list = try #require(try other.fetch(FetchRequest("Playlist")).first)
                for (key, entity) in [("notes", "Note"), ("songs", "Song")] {
                    let gone = list.objects(key)[2]
                    list.remove(gone, from: key)
                    other.delete(gone)
                    let added = try other.insertObject(entityName: entity)
                    added["name"] = "z"
                    list.add(added, to: key)
                }
                try other.save()
            }
            try context.save()
            context.refreshAllObjects()
            let here = (list.memberNames("notes"), list.memberNames("songs"))
            // Nobody’s insertion is lost and nobody’s deletion undone, whoever’s order wins.
            #expect(here.0.sorted() == ["a", "b", "d", "n", "z"])
            #expect(here.1.sorted() == ["a", "b", "d", "n", "z"])
            #expect(here == ("nbadz", "nbadz"))
            let stored = try await container.performBackgroundTask { other in
                let list = try #require(try other.fetch(FetchRequest("Playlist")).first)
                return ["notes", "songs"].map { key in
                    list.objects(key).compactMap { $0["name"] as? String }.joined()
                }
            }
            #expect(stored == [here.0, here.1])
        }
    }

    /// A row is deleted in the middle of the list; undo puts it back where it was, and redo removes it again.
    /// Source: cocoaconvert.net “Core Data: Rough Riding” (undo with relationships).
    @Test(arguments: SituationStore.allCases, [false, true])
    func undoOfADeletionRestoresThePlaceInEachOrder(
        store: SituationStore, isSavedBetween: Bool
    ) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let lists = try ["x", "y"].map { try context.insertNamed("Playlist", $0) }
            let songs = try ["a", "b", "c"].map { try context.insertNamed("Song", $0) }
            lists[0]["songs"] = songs
            lists[1]["songs"] = [songs[1], songs[2], songs[0]]
            songs[1]["playlists"] = [lists[1], lists[0]]
            lists[0]["notes"] = try ["1", "2", "3"].map { try context.insertNamed("Note", $0) }
            try context.save()
            let undo = UndoManager()
            context.undoManager = undo

            let notes = lists[0].objects("notes")
            context.delete(songs[1])
            context.delete(notes[1])
            context.processPendingChanges()
            #expect(lists[0].memberNames("songs") == "ac" && lists[1].memberNames("songs") == "ca")
            if isSavedBetween { try context.save() }
            undo.undo()
            #expect(
                lists[0].memberNames("songs") == "abc" && lists[1].memberNames("songs") == "bca")
            #expect(lists[0].memberNames("notes") == "123")
            let back = try context.findNamed("Song", "b")
            #expect(back.memberNames("playlists") == "yx")
            try context.save()
            context.refreshAllObjects()
            #expect(
                lists[0].memberNames("songs") == "abc" && lists[1].memberNames("songs") == "bca")
            #expect(back.memberNames("playlists") == "yx")
            undo.redo()
            #expect(lists[0].memberNames("notes") == "13" && lists[0].memberNames("songs") == "ac")
            try context.save()
        }
    }

    /// Members of ordered relationships are deleted by a batch request; then the user moves a row of the list that was
    /// read before.
    /// Source: Stack Overflow “NSBatchDeleteRequest causes Merge Conflict”.
    @Test(arguments: SituationStore.allCases)
    func aListIsMovedAfterABatchDeletionOfMembers(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let list = try context.insertNamed("Playlist", "list")
            list["songs"] = try ["a", "b", "c", "d"].map { try context.insertNamed("Song", $0) }
            list["notes"] = try ["a", "b", "c", "d"].map { try context.insertNamed("Note", $0) }
            try context.save()
            #expect(list.memberNames("songs") == "abcd")
            for entity in ["Song", "Note"] {
                var request = BatchDeleteRequest(
                    entityName: entity,
                    predicate: try QueryPredicate(format: "name IN {'b', 'd'}"))
                request.resultType = .objectIDs
                let result = try context.execute(request)
                #expect(result.count == 2)
                ManagedObjectContext.mergeChanges(
                    fromRemoteContextSave: result.changes, into: [context])
            }
            #expect(list.memberNames("songs") == "ac" && list.memberNames("notes") == "ac")
            list.moveObject(in: "songs", from: 1, to: 0)
            list.insert(try context.insertNamed("Note", "n"), into: "notes", at: 1)
            try context.save()
            context.reset()
            let again = try context.findNamed("Playlist", "list")
            #expect(again.memberNames("songs") == "ca" && again.memberNames("notes") == "anc")
        }
    }

    /// The relationship’s owner is not saved yet, or its contents were not read: adding through either side appends.
    /// Source: openradar-mirror #3947 “CoreData ordered relationships: CoreDataGeneratedAccessors crashes on insert”.
    @Test(arguments: SituationStore.allCases)
    func addingThroughTheOtherSideAppends(store: SituationStore) async throws {
        try await withSituation(store, Self.model) { container in
            let context = container.viewContext
            let list = try context.insertNamed("Playlist", "list")
            func extend(_ texts: [String], _ list: ManagedObject) throws {
                for text in texts {
                    (try context.insertNamed("Note", text))["playlist"] = list
                    (try context.insertNamed("Song", text))["playlists"] = [list]
                }
            }
            try extend(["a", "b"], list)
            #expect(list.memberNames("notes") == "ab" && list.memberNames("songs") == "ab")
            try context.save()
            context.reset()
            let again = try context.findNamed("Playlist", "list")
            #expect(again.hasFault(forRelationshipNamed: "notes"))
            try extend(["c", "d"], again)
            again.insert(try context.insertNamed("Note", "0"), into: "notes", at: 0)
            #expect(again.memberNames("notes") == "0abcd" && again.memberNames("songs") == "abcd")
            try context.save()
            context.reset()
            let last = try context.findNamed("Playlist", "list")
            #expect(last.memberNames("notes") == "0abcd" && last.memberNames("songs") == "abcd")
        }
    }
}
