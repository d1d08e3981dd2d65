import Dispatch
import Quire

/// Runs blocking file work on threads of its own, so that neither the main queue nor the cooperative thread pool
/// waits.
final class FileQueue: Sendable {
    /// For documents' opening, saving and closing.
    static let shared = FileQueue("quire.document.files")
    /// For long work that blocks no other: exports, copies, checks.
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
        // Errors come as values: optimized code does not come back to the caller's executor if a continuation throws to a
        // function that is `nonisolated(nonsending)`.
        try await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: Swift.Result { try body() }) }
        }.get()
    }
}

extension QuireError {
    /// An error as it is, or, if it is of another kind, as the cause of one of ours.
    init(wrapping error: any Error, path: String) {
        self = FileSystem.failure("use", path, thrown: error)
    }
}
