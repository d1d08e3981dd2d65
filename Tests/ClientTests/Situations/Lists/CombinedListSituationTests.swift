import Foundation
import Quire
import QuireMacros
import Testing

@Entity class ListedMedium: ManagedObject {
    @Attribute var title: String
    @Attribute(default: 0) var year: Int
}

@Entity final class ListedFilm: ListedMedium {
    @Attribute(default: 0) var minutes: Int
}

@Entity final class ListedSong: ListedMedium {
    @Attribute(default: 0) var seconds: Int
}

@Entity final class ListedFolder: ManagedObject {
    @Attribute var name: String
    @Relationship(inverse: \ListedFolder.children) var parent: ListedFolder?
    @Relationship(deleteRule: .cascade) var children: Set<ListedFolder>
    @Attribute(derived: "children.@count") var childCount: Int
}

/// Lists and what else a program uses: inheritance, trees, derived values, conflicts, private queues, several stores.
@MainActor @Suite struct CombinedListSituationTests {
    // A list of a superentity shows films and songs; one of songs only does not. A title that both share orders them in
    // some way, and the same way after the save. Source: JohnEstropia/CoreStore issue 316.
    @Test(arguments: SituationStore.allCases)
    func aListOfASuperentityShowsSubentities(_ store: SituationStore) async throws {
        let model = try ManagedObjectModel(classes: [
            ListedMedium.self, ListedFilm.self, ListedSong.self,
        ])
        try await withSituation(store, model) { container in
            let context = container.viewContext
            @MainActor func list<T: ListedMedium>(
                _: T.Type, subentities: Bool = true, where format: String? = nil
            ) throws -> MirroredList<T> {
                var request = FetchRequest<T>(sortOrderings: [SortOrdering("title")])
                request.includesSubentities = subentities
                request.predicate = try format.map { try QueryPredicate(format: $0) }
                return try MirroredList(
                    FetchedResultsController(fetchRequest: request, managedObjectContext: context),
                    text: { "\($0.title)\($0.year)" })
            }
            let all = try list(ListedMedium.self)
            let plain = try list(ListedMedium.self, subentities: false)
            let songs = try list(ListedSong.self)
            let films = try list(ListedMedium.self, where: "entity.name == 'ListedFilm'")
            @MainActor func check(_ step: String) throws {
                for list in [all, plain, films] { try list.check(step) }
                try songs.check(step)
            }
            for number in 0..<4 {
                let song = ListedSong(context: context)
                (song.title, song.year) = ("same", number)
                let film = ListedFilm(context: context)
                (film.title, film.year) = (number % 2 == 0 ? "same" : "a", number)
            }
            ListedMedium(context: context).title = "plain"
            try check("inserted")
            try context.save()
            try check("saved")
            #expect(plain.texts == ["plain0"])
            #expect(films.texts == ["a1 a3 same0 same2"])
            #expect(songs.texts == ["same0 same1 same2 same3"])
            for medium in try context.fetch(ListedMedium.self) where medium.year == 2 {
                medium.title = "z"
            }
            try check("edited")
            let changes = try await container.performBackgroundTask { background in
                var request = BatchDeleteRequest(
                    entityName: "ListedMedium", predicate: try QueryPredicate(format: "year = 1"))
                request.resultType = .objectIDs
                return try background.execute(request).changes
            }
            context.mergeChanges(from: changes)
            try check("batch deletion")
            try context.save()
            try check("saved again")
            #expect(songs.texts == ["same0 same3 z2"])
        }
    }

    // A tree of folders, sorted by the name of the parent's parent and by how many children a folder has: moving one folder
    // moves the rows of its grandchildren. Source: Stack Overflow: “One-to-Many circular reference deletion has unexpected
    // side-effects”.
    @Test(arguments: SituationStore.allCases)
    func movingAFolderMovesItsGrandchildren(_ store: SituationStore) async throws {
        let model = try ManagedObjectModel(classes: [ListedFolder.self])
        try await withSituation(store, model) { container in
            let context = container.viewContext
            @MainActor func folder(_ name: String, in parent: ListedFolder?) -> ListedFolder {
                let folder = ListedFolder(context: context)
                (folder.name, folder.parent) = (name, parent)
                return folder
            }
            let (a, b) = (folder("a", in: nil), folder("b", in: nil))
            let middle = folder("m", in: a)
            for name in ["x", "y"] { _ = folder(name, in: middle) }
            let other = folder("n", in: b)
            _ = folder("z", in: other)
            try context.save()
            let leaves = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest<ListedFolder>(
                        predicate: QueryPredicate(format: "parent.parent != NULL"),
                        sortOrderings: [
                            SortOrdering("parent.parent.name"), SortOrdering("name"),
                        ]), managedObjectContext: context,
                    sectionNameKeyPath: "parent.parent.name"),
                sectionName: { $0.parent?.parent?.name ?? "" }, text: \.name)
            let counts = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest<ListedFolder>(sortOrderings: [
                        SortOrdering("childCount", ascending: false), SortOrdering("name"),
                    ]), managedObjectContext: context, sectionNameKeyPath: "childCount"),
                sectionName: { String($0.childCount) }, text: \.name)
            @MainActor func check(_ step: String) throws {
                try leaves.check(step)
                try counts.check(step)
            }
            #expect(leaves.texts == ["a: x y", "b: z"])
            #expect(counts.texts == ["2: m", "1: a b n", "0: x y z"])
            middle.parent = b
            try check("moved")
            #expect(leaves.texts == ["b: x y z"])
            #expect(counts.texts == ["2: b m", "1: n", "0: a x y z"])
            b.name = "B"
            try check("renamed")
            other.parent = middle
            try check("deeper")
            #expect(leaves.texts == ["B: n x y", "m: z"])
            try context.save()
            try check("saved")
            context.delete(middle)
            try check("deleted")
            #expect(leaves.texts == [])
            context.rollback()
            try check("rolled back")
            middle.parent = nil
            try context.save()
            try check("moved up, saved")
            #expect(leaves.texts == ["m: z"])
        }
    }

    // Saving finds that others have changed or deleted the rows; the policy decides, and the list must show what it has
    // decided. Source: paulw11/Seam3 issue 81.
    @Test(arguments: SituationStore.allCases, ["store", "object", "overwrite", "rollback"])
    func theOutcomeOfAConflictIsShown(_ store: SituationStore, _ policy: String) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            context.mergePolicy =
                switch policy {
                case "store": .mergeByPropertyStoreTrump
                case "object": .mergeByPropertyObjectTrump
                case "overwrite": .overwrite
                default: .rollback
                }
            for number in 0..<4 { context.addTask("t\(number)", "a", rank: number) }
            try context.save()
            let list = try MirroredList(
                context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category"),
                sectionName: { $0.category ?? "" }, text: { "\($0.title)=\($0.rank)" })
            let held = Array(try context.fetch(ListedTask.self))
            try context.task("t0").title = "mine"
            try context.task("t1").rank = 20
            try context.task("t3").rank = 30
            context.delete(try context.task("t2"))
            context.addTask("new", "b")
            try list.check("edited")
            // Nothing is merged: the save finds it.
            try await container.performBackgroundTask { background in
                try background.task("t0").title = "theirs"
                try background.task("t1").category = "c"
                try background.task("t2").rank = 50
                background.delete(try background.task("t3"))
                try background.save()
            }
            try context.save()
            try list.check("saved")
            try list.load()
            try list.check("fetched again")
            let expected =
                switch policy {
                case "store": ["a: theirs=0 t2=50", "b: new=0", "c: t1=20"]
                case "object": ["a: mine=0 t3=30", "b: new=0", "c: t1=20"]
                case "overwrite": ["a: mine=0 t1=20 t3=30", "b: new=0"]
                default: ["a: theirs=0 t2=50", "b: new=0", "c: t1=1"]
                }
            #expect(list.texts == expected)
            withExtendedLifetime(held) {}
        }
    }

    // The delegate saves when the outcome of a conflict is reported, within the save. Source: kasianov-mikhail/scout pull
    // request 822.
    @Test(arguments: SituationStore.allCases, [false, true])
    func aDelegateThatSavesDuringAConflict(
        _ store: SituationStore, withSnapshots: Bool
    ) async throws {
        let model = try ManagedObjectModel(classes: [ListedStory.self])
        try await withSituation(store, model) { container in
            let context = container.viewContext
            context.mergePolicy = .mergeByPropertyObjectTrump
            @MainActor func story(_ address: String, _ title: String) -> ListedStory {
                let story = ListedStory(context: context)
                (story.address, story.title) = (address, title)
                return story
            }
            _ = story("1", "one")
            try context.save()
            let list = try MirroredList(
                FetchedResultsController(
                    fetchRequest: FetchRequest<ListedStory>(sortOrderings: [SortOrdering("title")]),
                    managedObjectContext: context), text: \.title)
            var saves = 0
            let save: () throws -> Void = {
                saves += 1
                if context.hasChanges { try context.save() }
            }
            if withSnapshots { list.didTakeSnapshot = save } else { list.didChange = save }
            _ = story("1", "another")
            _ = story("2", "two")
            try context.save()
            try list.check("saved")
            #expect(saves > 0)
            #expect(list.texts == ["another two"])
            #expect(!context.hasChanges)
            let stored = try await container.performBackgroundTask { background in
                try background.fetch(ListedStory.self).map(\.title).sorted()
            }
            #expect(stored == ["another", "two"])
        }
    }

    // A controller of a background context, whose snapshots a view takes on the main queue. Sources:
    // bignerdranch/CoreDataStack issue 96; openradar 15183257.
    @Test(arguments: SituationStore.allCases)
    func snapshotsOfAPrivateContextAreTakenElsewhere(_ store: SituationStore) async throws {
        try await withSituation(store, .listedTasks) { container in
            let context = container.viewContext
            for number in 0..<3 { context.addTask("t\(number)", "c\(number)", rank: number) }
            try context.save()
            let background = QueueConfinedContext(coordinator: container.persistentStoreCoordinator)
            let snapshots = try await background.perform { context in
                context.automaticallyMergesChangesFromParent = true
                let controller = try context.tasks(
                    SortOrdering("category"), SortOrdering("rank"), sections: "category")
                try controller.performFetch()
                // The context keeps what is in its user info alive.
                context.userInfo["list"] = controller
                return controller.snapshots
            }
            var iterator = snapshots.makeAsyncIterator()
            #expect(await iterator.next()?.sectionIdentifiers == ["c0", "c1", "c2"])
            try context.task("t0").category = "c2"
            context.addTask("t3", "c3")
            try context.save()
            let snapshot = try #require(await iterator.next())
            #expect(snapshot.sectionIdentifiers == ["c1", "c2", "c3"])
            let titles = snapshot.itemIdentifiers.map {
                (context.object(with: $0) as? ListedTask)?.title
            }
            #expect(titles == ["t1", "t0", "t2", "t3"])
        }
    }

    // The list is off the screen: its delegate is nil, rows change, and it comes back. Source: magicalpanda/MagicalRecord
    // issue 868.
    @Test func aListThatComesBackFetchesAgain() async throws {
        try await withSituation(.sqlite, .listedTasks) { container in
            let context = container.viewContext
            for number in 0..<4 { context.addTask("t\(number)", rank: number) }
            try context.save()
            let list = try MirroredList(tasks: context.tasks(SortOrdering("rank")))
            let old = try #require(list.controller.fetchedObjects)
            list.controller.delegate = nil
            try context.task("t0").rank = 8
            context.delete(try context.task("t1"))
            context.addTask("t4", rank: 4)
            try context.save()
            #expect(list.texts == ["t0 t1 t2 t3"])
            #expect(
                list.controller.fetchedObjects.map { $0.map(\.title) } == ["t2", "t3", "t4", "t0"])
            // What was taken before keeps its members; that one of them is deleted does no harm.
            #expect(old.count == 4)
            #expect(old.map(\.isDeleted).count == 4)
            list.controller.delegate = list
            try list.load()
            try context.task("t2").rank = 9
            try list.check("back")
            #expect(list.texts == ["t3 t4 t0 t2"])
        }
    }

    // The controller is thrown away in its own callback, as when a deletion closes the screen. Source:
    // alecrim/AlecrimCoreData pull request 135.
    @Test func aControllerMayGoInItsCallback() async throws {
        try await withSituation(.sqlite, .listedTasks) { container in
            let context = container.viewContext
            context.addTask("a")
            try context.save()
            var list: MirroredList<ListedTask>? = try MirroredList(
                tasks: context.tasks(SortOrdering("title")))
            let other = try MirroredList(tasks: context.tasks(SortOrdering("title")))
            var batches = 0
            list?.didChange = {
                batches += 1
                list = nil
            }
            context.addTask("b")
            context.processPendingChanges()
            context.addTask("c")
            try other.check("after")
            #expect(batches == 1)
            #expect(list == nil)
            #expect(other.texts == ["a b c"])
        }
    }
}
