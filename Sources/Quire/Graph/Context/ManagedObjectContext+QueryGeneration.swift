internal import QuireStore

/// Reading one state of the stores while others save.
///
/// ```swift
/// try context.setQueryGeneration(from: .current)
/// let books = try context.fetch(FetchRequest("Book"))     // pins the last commit
/// // Counts, faults, relationships and further fetches are of the same commit, while others save and delete.
/// try context.save()                                      // moves on
/// ```
extension ManagedObjectContext {
    /// The generation that the context reads: `nil`, the default, for the present content; ``QueryGenerationToken/current`` if
    /// the next read pins one. Another context with the same token reads the same state.
    ///
    /// A child has its parent's generation.
    public var queryGenerationToken: QueryGenerationToken? {
        checkQueue()
        return pinnedGeneration.generation.map {
            $0.isPinned ? QueryGenerationToken(generation: $0) : .current
        }
    }

    /// Pins the context to a generation: its fetches, counts and faults, its to-many relationships, external data, batches of
    /// results and fetched results controllers read one commit of each store, until the context moves on.
    ///
    /// It moves on to the last commit, by its next read, with ``save()``, ``reset()``, ``refreshAllObjects()`` and when it merges
    /// changes, also automatically. Values that were read before stay until their objects are refreshed. Children read their
    /// parent's generation.
    ///
    /// A SQLite store keeps a generation through a reader's open transaction as long as contexts or tokens use it, and
    /// at most as long as ``SQLiteStoreOptions/maximumQueryGenerationAge`` and
    /// ``SQLiteStoreOptions/maximumQueryGenerationLogSize`` allow. After that reads throw code `generationExpired`, and faults
    /// report it as ``lastFaultError``.
    ///
    /// As in Core Data, it does nothing for a context with a parent or the context of a document, and a store without
    /// generations is read at its present state: a SQLite store in memory or without a write-ahead log, and a store of a type
    /// that a program has added, unless it has them.
    ///
    /// - Parameter token: `.current` for the last commit at the next read, another context's token for that one's generation, or
    ///   `nil` for the present content at any time.
    /// - Throws: ``QuireError`` with code `invalidValue` for a token of another coordinator.
    public func setQueryGeneration(from token: QueryGenerationToken?) throws {
        checkQueue()
        if parent != nil || isWriteBehindParent { return }
        guard let token else { return read(nil) }
        if let generation = token.generation,
            generation.coordinator !== persistentStoreCoordinator
        {
            throw QuireError(
                .invalidValue,
                "The query generation belongs to another coordinator; use a token from a context of this coordinator."
            )
        }
        read(token.generation ?? QueryGeneration(persistentStoreCoordinator))
    }

    private func read(_ generation: QueryGeneration?) {
        pinnedGeneration.generation = generation
        source = generation ?? persistentStoreCoordinator
    }

    /// Lets the next read pin the last commit, if the context is pinned.
    func advanceQueryGeneration() {
        if pinnedGeneration.generation != nil, parent == nil {
            read(QueryGeneration(persistentStoreCoordinator))
        }
    }

    /// Reads the present content while a closure runs, and then the last commit, if the context is pinned.
    func withPresentContent<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard pinnedGeneration.generation != nil, parent == nil else { return try body() }
        read(nil)
        defer { read(QueryGeneration(persistentStoreCoordinator)) }
        return try body()
    }

    /// The stores, or the generation of them that the context reads.
    var storeToRead: any PersistentStore {
        get throws { try pinnedGeneration.generation?.store() ?? persistentStoreCoordinator.store }
    }
}

/// The generation that a context is pinned to, shared with its descendants, which read it on other queues.
final class PinnedGeneration: Sendable {
    private let state = Lock<QueryGeneration?>(nil)

    /// The generation; `nil` if the context is not pinned.
    var generation: QueryGeneration? {
        get { state.withLock { $0 } }
        set {
            // The old one is released after unlocking.
            _ = state.withLock { state in
                defer { state = newValue }
                return state
            }
        }
    }
}
