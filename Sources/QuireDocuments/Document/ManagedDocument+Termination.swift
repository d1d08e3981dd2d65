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
        for number in signals { TerminationSignal.handle(number) }
    }
}

/// Saves documents before the process ends.
@MainActor
private enum TerminationSignal {
    private static var handled: Set<Int32> = []
    private static var isEnding = false
    private static let patience = Duration.seconds(10)

    static func handle(_ number: Int32) {
        guard handled.insert(number).inserted else { return }
        TerminationCleanup.handle(number, on: .main) {
            MainActor.assumeIsolated { received(number) }
        }
    }

    private static func received(_ number: Int32) {
        if isEnding { TerminationCleanup.end(by: number) }
        isEnding = true
        Task {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await saveAll() }
                group.addTask { try? await Task.sleep(for: patience) }
                await group.next()
                TerminationCleanup.end(by: number)
            }
        }
    }

    private static func saveAll() async {
        let documents = OpenDocuments.all.filter { !$0.isReadOnly }
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
