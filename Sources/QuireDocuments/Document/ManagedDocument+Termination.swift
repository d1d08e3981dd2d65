import Dispatch
public import Foundation
import Quire

extension ManagedDocument {
    /// Has all open documents saved when the process is asked to end: by the signals given. Then it ends as it would have.
    ///
    /// Call it once, early, in a program that leaves these signals alone otherwise; signals that are ignored, as under
    /// `nohup`, stay so. A second signal, or ten seconds, end the process without waiting any longer. The main queue must be
    /// running. What cannot be saved because objects are invalid is kept as a draft; see ``draftStatus``.
    public static func saveOnTermination(
        signals: [Int32] = [SIGTERM, SIGINT, SIGHUP]
    ) {
        saveOnTermination(signals: signals) {}
    }

    /// As ``saveOnTermination(signals:)``, and runs a body after the documents have been saved.
    package static func saveOnTermination(
        signals: [Int32] = [SIGTERM, SIGINT, SIGHUP],
        _ body: @escaping @MainActor @Sendable () -> Void
    ) {
        for number in signals { TerminationSignal.handle(number, body) }
    }
}

/// Saves documents before the process ends.
private enum TerminationSignal {
    private static let isEnding = Lock(false)
    private static let patience = 10.0
    /// Not the main queue: a second signal is heard also while that is busy.
    private static let queue = DispatchQueue(label: "quire.termination")

    static func handle(_ number: Int32, _ body: @escaping @MainActor @Sendable () -> Void) {
        TerminationCleanup.handle(number, on: queue) { received(number, body) }
    }

    private static func received(
        _ number: Int32, _ body: @escaping @MainActor @Sendable () -> Void
    ) {
        let isFirst = isEnding.withLock { isEnding in
            defer { isEnding = true }
            return !isEnding
        }
        if !isFirst { TerminationCleanup.end(by: number) }
        queue.asyncAfter(deadline: .now() + patience) { TerminationCleanup.end(by: number) }
        Task { @MainActor in
            await saveAll()
            // As they are: neither logs nor locks are left in them.
            for document in documents { try? document.package.close() }
            body()
            TerminationCleanup.end(by: number)
        }
    }

    @MainActor
    private static var documents: [ManagedDocument] { OpenDocuments.all.filter { !$0.isReadOnly } }

    @MainActor
    private static func saveAll() async {
        let documents = documents
        await withTaskGroup(of: Void.self) { group in
            for document in documents {
                document.isTerminating = true
                // What fails is in a draft if that is of use.
                group.addTask {
                    do { try await document.autosave() } catch {
                        await logFailedAutosave(
                            of: document.path, QuireError(wrapping: error, path: document.path))
                    }
                }
            }
        }
    }
}
