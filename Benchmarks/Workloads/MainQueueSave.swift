import Quire

extension Run {
    /// Changes one object in a main-queue context over a private-queue parent, as a document does, and saves:
    /// first to the parent, which is the main queue's part, then to the store.
    @MainActor
    func measureMainQueue(count: Int) throws -> Comparison {
        let path = "\(folder)/main-queue-\(count).sqlite"
        let dataset = Dataset(count: count)
        let document = try QuireEngine.create(at: path)
        try document.insert(dataset, withTags: true, Stopwatch())
        let rating = try NoteSlots(document.coordinator.layout).rating
        let parent = QueueConfinedContext(coordinator: document.coordinator)
        let context = ManagedObjectContext.mainQueue(parent: parent)
        // As in an application, the objects of the document are there: a list of them shows what has been read.
        let notes = try context.fetch(FetchRequest("Note", sortOrderings: [SortOrdering("title")]))
        let objects = Array(notes)

        let mainQueue = Stopwatch()
        let total = Stopwatch()
        let warmUps = 10
        for round in 0..<warmUps + max(20, Int(100 * options.effort)) {
            if round == warmUps {
                mainQueue.removeSamples()
                total.removeSamples()
            }
            let note = objects[(round &* 7_919 + 13) % objects.count]
            try note.setValue(.integer((note.integer(at: rating) ?? 0) + 1), at: rating)
            total.start()
            mainQueue.start()
            try context.save()
            mainQueue.stop()
            try parent.performAndWait { try $0.save() }
            total.stop()
        }
        try document.close()
        return Comparison(
            "Q1", "save one changed object to the parent", count: count, unit: "µs",
            quire: mainQueue.median.map { $0 * 1_000 },
            others: total.median.map { [.init(name: "to the store too", value: $0 * 1_000)] } ?? [],
            most: 100)
    }
}
