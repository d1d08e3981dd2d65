import Quire
import QuireDocuments

/// An open document. Its reads run in parallel, and its writes one after the other.
///
/// - A write that returns is on the disk and survives a power loss.
/// - A write that throws has changed nothing; only if the disk fails during the commit, the next opening may show it.
/// - A read sees one commit, from its first fetch to its last, and never a change that is not on the disk.
@MainActor
final class ServedDocument {
    let document: Checklist
    private var waiting: [Write] = []
    private var isWriting = false

    /// Makes the changes of a write in memory. What it returns answers the request, with the error of saving them if there was one.
    private typealias Write = @MainActor () async -> (_ error: (any Error)?) -> Void

    init(_ document: Checklist) { self.document = document }

    /// Runs a closure on a context of its own, which reads the store, and there one commit. A background context of the document
    /// would also show the changes that are yet to be saved.
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

    /// Makes and saves the writes that wait. Those that come during a save share the next one, so that many clients do not wait for
    /// as many synchronizations of the disk.
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

    /// Saves the document. If that fails, reverts it to what is on the disk: no later save may write what was reported as failed.
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
