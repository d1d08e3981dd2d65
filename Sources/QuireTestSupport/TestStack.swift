public import Quire

/// A new SQLite store in a temporary folder, with a coordinator. The folder goes with it.
public final class TestStack: Sendable {
    /// The folder that holds the store.
    public let folder: TemporaryFolder
    /// The path of the store.
    public let path: String
    /// The coordinator.
    public let coordinator: PersistentStoreCoordinator

    /// Creates a store with a model.
    public init(_ model: ManagedObjectModel = FixtureModels.library) throws {
        folder = try TemporaryFolder()
        path = folder.path("test.sqlite")
        coordinator = PersistentStoreCoordinator(
            store: try SQLiteStore.create(at: path, model: model))
    }

    /// A main-queue context over the store.
    @MainActor public func mainContext() -> ManagedObjectContext {
        .mainQueue(coordinator: coordinator)
    }

    /// A main-queue context over a private-queue one, as documents have them.
    @MainActor public func nestedContext() -> ManagedObjectContext {
        .mainQueue(parent: QueueConfinedContext(coordinator: coordinator))
    }

    /// A private-queue context like the parent of a document's context.
    public func documentParent() -> QueueConfinedContext {
        let parent = QueueConfinedContext(coordinator: coordinator)
        parent.performAndWait { $0.isWriteBehindParent = true }
        return parent
    }

    deinit { try? coordinator.close() }
}

/// The ancestors of the context under test.
public enum ContextArrangement: CaseIterable, Sendable {
    /// Over the coordinator.
    case direct
    /// Over a private-queue parent, saved to the store by ``TestStack/save(_:)``.
    case nested
    /// Over a document's parent, which keeps saves as values.
    case inDocument
}

extension TestStack {
    /// A main-queue context arranged so.
    @MainActor public func context(_ arrangement: ContextArrangement) -> ManagedObjectContext {
        switch arrangement {
        case .direct: mainContext()
        case .nested: nestedContext()
        case .inDocument: .mainQueue(parent: documentParent())
        }
    }

    /// Saves a context and its parent, if it has one.
    @MainActor public func save(_ context: ManagedObjectContext) throws {
        try context.save()
        try context.parent?.performWithoutObjectsAndWait { try $0.save() }
    }

    /// The values under a key of all objects of an entity, sorted by their text, read by a new context.
    @MainActor public func stored(_ entity: String, _ key: String) throws -> [String] {
        try mainContext().fetch(FetchRequest(entity)).map { "\($0[key, as: AttributeValue.self])" }
            .sorted()
    }
}

// MARK: - Reading

extension TestStack {
    /// The number of statements that the store has run to read.
    public var readStatementCount: Int {
        (coordinator.store as? SQLiteStore)?.readStatementCount ?? 0
    }

    /// The number of statements that the store runs to read while a closure runs.
    @MainActor public func statements<Result>(
        during body: () throws -> Result
    ) rethrows -> (count: Int, result: Result) {
        let before = readStatementCount
        let result = try body()
        return (readStatementCount - before, result)
    }

    /// Saves books titled `b0`, `b1` … of authors `a0` …, with tags `t0` … two to each book.
    @MainActor public func fill(books: Int, authors: Int = 10, tags: Int = 5) throws {
        let context = mainContext()
        let authors = try (0..<authors).map { number in
            let author = try context.insertObject(entityName: "Author")
            author["name"] = "a\(number)"
            return author
        }
        let tags = try (0..<tags).map { number in
            let tag = try context.insertObject(entityName: "Tag")
            tag["name"] = "t\(number)"
            return tag
        }
        for number in 0..<books {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = "b\(number)"
            book["year"] = Int64(number * 7 % 1000)
            if !authors.isEmpty {
                book["author"] = authors[number % authors.count]
            }
            if tags.count > 1 {
                book.add(tags[number % tags.count], to: "tags")
                book.add(tags[(number + 1) % tags.count], to: "tags")
            }
        }
        try context.save()
    }
}
