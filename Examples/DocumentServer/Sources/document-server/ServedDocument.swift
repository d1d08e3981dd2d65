import Quire
import QuireDocuments

/// An open document. Its reads run in parallel, and its writes one after the other.
///
/// - A write that returns is on the disk, and survives a power loss.
/// - A write that throws has changed nothing. Only if the disk fails during the commit can the next opening show it saved.
/// - A read sees one commit from its first fetch to its last, never a write that has not been acknowledged.
@MainActor
final class ServedDocument {
    let document: Checklist
    private var waiting: [Write] = []
    private var isWriting = false

    /// Makes a write's changes in memory, and returns what answers its request when these have been saved, or have not.
    private typealias Write = @MainActor () async -> (_ saving: (any Error)?) -> Void

    init(_ document: Checklist) { self.document = document }

    /// Runs a closure on a context of its own. It reads from the store, where only saved changes are: a background context of the
    /// document would also show those that are being saved.
    func read<Result: Sendable>(
        _ body: sending @escaping (ManagedObjectContext) throws -> Result
    ) async throws -> Result {
        let context = QueueConfinedContext(coordinator: document.persistentStoreCoordinator)
        return try await context.perform { context in
            try context.setQueryGeneration(from: .current)
            return try body(context)
        }
    }

    /// Runs a closure on a background context, and saves the document.
    func write<Result: Sendable>(
        _ body: @escaping @Sendable (ManagedObjectContext) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            waiting.append { [document] in
                let result: Swift.Result<Result, any Error>
                do {
                    let value = try await document.performBackgroundTask { context in
                        let value = try body(context)
                        try context.save()
                        return value
                    }
                    result = .success(value)
                } catch {
                    result = .failure(error)
                }
                return { error in
                    continuation.resume(with: error.map { .failure($0) } ?? result)
                }
            }
            if !isWriting { Task { await writeAll() } }
            isWriting = true
        }
    }

    /// Writes what waits. All writes that have come while one save ran share the next: as many clients as there are, a document
    /// is synchronized to the disk once for all of them.
    private func writeAll() async {
        while !waiting.isEmpty {
            let writes = waiting
            waiting = []
            var answers: [((any Error)?) -> Void] = []
            for write in writes { answers.append(await write()) }
            let error = await save()
            for answer in answers { answer(error) }
        }
        isWriting = false
    }

    /// Saves the document, or takes it back to what is on the disk, so that no later save writes what clients were told has
    /// failed.
    private func save() async -> (any Error)? {
        do {
            try await document.save()
            return nil
        } catch {
            do { try await document.revert() } catch {
                try? await document.close(discardingChanges: true)
            }
            return error
        }
    }
}
