import Dispatch
import Quire

/// Runs blocking file operations on separate threads, so that they block neither the main queue nor the cooperative thread
/// pool.
final class FileQueue: Sendable {
    /// For opening, saving and closing documents.
    static let shared = FileQueue("quire.document.files")
    /// For long operations that must not delay others: exports, copies, checks.
    static let copies = FileQueue("quire.document.copies")

    private let queue: DispatchQueue

    private init(_ label: String) {
        // Concurrent: one document on a slow disk does not hold up another. A document orders its own work.
        queue = DispatchQueue(label: label, attributes: .concurrent)
    }

    /// Runs a body without waiting for it.
    func runLater(_ body: @escaping @Sendable () -> Void) { queue.async(execute: body) }

    /// Runs a body and returns its result.
    func run<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: body()) }
        }
    }

    /// Runs a body and returns its result, or throws its error.
    func run<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        // Errors are passed as values: optimized code does not return to the caller's executor if a continuation throws to a
        // `nonisolated(nonsending)` function.
        try await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: Swift.Result { try body() }) }
        }.get()
    }
}

extension QuireError {
    /// Wraps an error, unless it is a `QuireError` already.
    init(wrapping error: any Error, path: String) {
        self = FileSystem.failure("use", path, thrown: error)
    }
}
