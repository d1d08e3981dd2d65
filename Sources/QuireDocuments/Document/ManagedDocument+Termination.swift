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
    private static var sources: [Int32: any DispatchSourceSignal] = [:]
    private static var isEnding = false
    private static let patience = Duration.seconds(10)

    static func handle(_ number: Int32) {
        guard sources[number] == nil else { return }
        // A dispatch source is told besides the signal's own effect, which is to end the process.
        let former = signal(number, SIG_IGN)
        if isIgnore(former) { return }
        let source = DispatchSource.makeSignalSource(signal: number, queue: .main)
        source.setEventHandler { MainActor.assumeIsolated { received(number) } }
        sources[number] = source
        source.resume()
    }

    private static func isIgnore(_ handler: (@convention(c) (Int32) -> Void)?) -> Bool {
        // SIG_IGN is no function but the number 1.
        unsafeBitCast(handler, to: Int.self) == 1
    }

    private static func received(_ number: Int32) {
        if isEnding { return end(number) }
        isEnding = true
        Task {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await saveAll() }
                group.addTask { try? await Task.sleep(for: patience) }
                await group.next()
                end(number)
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

    private static func end(_ number: Int32) {
        signal(number, SIG_DFL)
        // The dispatch source has it blocked.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(number)
        _exit(128 + number)
    }
}
