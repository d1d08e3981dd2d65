import Quire

extension GraphTask {
    /// Saving changes of a child; nothing reaches the store.
    static let savingToParents = [
        GraphTask(
            id: "C1", title: "save 100 changes to the parent, N objects in memory",
            otherTitle: "only these 100 in memory", must: 1.5
        ) { site, measured, other in
            try saveToParent(site, levels: 1, holdsAll: false, other)
            try saveToParent(site, levels: 1, holdsAll: true, measured)
        },
        GraphTask(
            id: "C2", title: "save 100 changes up two levels", otherTitle: "up one level",
            must: 5
        ) { site, measured, other in
            try saveToParent(site, levels: 1, holdsAll: true, other)
            try saveToParent(site, levels: 2, holdsAll: true, measured)
        },
    ]

    /// Saving to the store through two levels.
    static let savingThroughParents = GraphTask(
        id: "C4", title: "save 10,000 changes up two levels and to the store",
        otherTitle: "straight to the store", must: 1.5, minimumCount: 10_000
    ) { site, measured, other in
        try saveToStore(site, levels: 0, other)
        try saveToStore(site, levels: 2, measured)
    }

    private static func saveToStore(
        _ site: GraphSite, levels: Int, _ stopwatch: Stopwatch
    ) throws {
        var contexts = [QueueConfinedContext(coordinator: site.coordinator)]
        for level in 0..<levels { contexts.append(QueueConfinedContext(parent: contexts[level])) }
        let bottom = contexts.removeLast()
        try bottom.performAndWait { context in
            let found = try context.fetch(FetchRequest("Note"))
            let notes = site.numbers(10_000).map { found[$0] }
            let expected = site.ratings(of: notes) + Int64(notes.count)
            for note in notes { try site.raiseRating(of: note) }
            stopwatch.start()
            try context.save()
            for parent in contexts.reversed() { try parent.performAndWait { try $0.save() } }
            stopwatch.stop()
            context.refreshAllObjects()
            if site.ratings(of: notes) != expected {
                throw BenchmarkFailure("The changes have not reached the store.")
            }
        }
    }

    private static func saveToParent(
        _ site: GraphSite, levels: Int, holdsAll: Bool, _ stopwatch: Stopwatch
    ) throws {
        let top = QueueConfinedContext(coordinator: site.coordinator)
        var contexts = [top]
        for _ in 0..<levels {
            contexts.append(QueueConfinedContext(parent: contexts[contexts.count - 1]))
        }
        let bottom = contexts.removeLast()
        try top.performAndWait { context in
            context.retainsRegisteredObjects = true
            if holdsAll { for note in try context.fetch(FetchRequest("Note")) { _ = note } }
        }
        let above = contexts.dropFirst().reversed()
        try bottom.performAndWait { context in
            context.retainsRegisteredObjects = true
            let found = try context.fetch(FetchRequest("Note"))
            if holdsAll { for note in found { _ = note } }
            let notes = site.numbers(100).map { found[$0] }
            for _ in 0..<10 {
                for note in notes { try site.raiseRating(of: note) }
                stopwatch.start()
                try context.save()
                for parent in above { try parent.performAndWait { try $0.save() } }
                stopwatch.stop()
            }
        }
        let changed = top.performAndWait { $0.updatedObjects.count }
        if changed != min(100, site.count) {
            throw BenchmarkFailure("The topmost context has \(changed) changed objects.")
        }
    }

    /// Taking over what another context has saved.
    static let merging = [
        GraphTask(
            id: "C3", title: "merge 100 saved changes, N objects in memory",
            otherTitle: "only these 100 in memory", must: 1.5
        ) { site, measured, other in
            try merge(site, holdsAll: false, other)
            try merge(site, holdsAll: true, measured)
        }
    ]

    /// Merges, and reads what has changed.
    private static func merge(_ site: GraphSite, holdsAll: Bool, _ stopwatch: Stopwatch) throws {
        try QueueConfinedContext(coordinator: site.coordinator).performAndWait { context in
            context.retainsRegisteredObjects = true
            let found = try context.fetch(FetchRequest("Note"))
            if holdsAll { for note in found { _ = note } }
            let notes = site.numbers(100).map { found[$0] }
            let ids = notes.map(\.objectID)
            let expected = site.ratings(of: notes) + Int64(notes.count)
            try QueueConfinedContext(coordinator: site.coordinator).performAndWait { writer in
                for id in ids { try site.raiseRating(of: writer.existingObject(with: id)) }
                try writer.save()
            }
            stopwatch.start()
            context.mergeChanges(from: ObjectIDChanges(updated: ids))
            let sum = site.ratings(of: notes)
            stopwatch.stop()
            if sum != expected { throw BenchmarkFailure("Merging has read other values.") }
        }
    }

    /// One value of every note, as one step of undo.
    static let undoing = [
        GraphTask(
            id: "U1", title: "change N objects, undoable", otherTitle: "not undoable", must: 2.5
        ) { site, measured, other in
            try change(site, undoable: false, changing: other)
            try change(site, undoable: true, changing: measured)
        },
        GraphTask(
            id: "U2", title: "undo the change of N objects", otherTitle: "the change", must: 2
        ) { site, measured, other in
            try change(site, undoable: true, changing: other, undoing: measured)
        },
        GraphTask(
            id: "U3", title: "redo the change of N objects", otherTitle: "the change", must: 2
        ) { site, measured, other in
            try change(site, undoable: true, changing: other, redoing: measured)
        },
    ]

    private static func change(
        _ site: GraphSite, undoable: Bool, changing: Stopwatch, undoing: Stopwatch? = nil,
        redoing: Stopwatch? = nil
    ) throws {
        try site.withNotes { context, notes in
            if undoable { context.undoManager = UndoManager() }
            let before = site.ratings(of: notes)
            changing.start()
            for note in notes { try site.raiseRating(of: note) }
            context.processPendingChanges()
            changing.stop()
            guard undoing != nil || redoing != nil else { return }
            undoing?.start()
            context.undo()
            undoing?.stop()
            guard site.ratings(of: notes) == before, !context.hasChanges else {
                throw BenchmarkFailure("Undo has not led back.")
            }
            redoing?.start()
            context.redo()
            redoing?.stop()
            guard site.ratings(of: notes) == before + Int64(notes.count) || redoing == nil else {
                throw BenchmarkFailure("Redo has not led there.")
            }
        }
    }
}
