import Foundation
import Quire
import QuireDocuments

/// Makes, saves and copies a document as it is told, and says on standard output how far it is, so that a test can stop or
/// hinder it anywhere and know what must be on disk.
///
///     QuireCrashWriter FOLDER SEED STEP…
///     QuireCrashWriter PATH SEED draft
///     QuireCrashWriter PATH SEED wait
///     QuireCrashWriter PATH SEED terminate
///     QuireCrashWriter FOLDER SEED share STEP
///     QuireCrashWriter PATH commands
///     QuireCrashWriter PATH SEED store TYPE
///     QuireCrashWriter PATH SEED template TEMPLATE
///
/// The document is `a.quire` in the folder. What it contains after N saves depends on the seed and N only;
/// ``CrashContent`` says how. ``CrashStep`` lists the steps; ``CrashDraft``, ``CrashWait``, ``CrashReplica``,
/// ``CommandedWriter`` and ``CrashStore`` are for tests of their own. What is printed:
///
/// - `begin NAME N`: from now on the package NAME may be that of save N;
/// - `end NAME N`: it is, durably;
/// - `failed STEP CODE: …`: a step failed;
/// - `wrong: …`: something is not as it must be, after a failure above all;
/// - `closed`: all steps have been done.
@main
enum CrashWriter {
    @MainActor
    static func main() async {
        let arguments = CommandLine.arguments
        unlockProtection()
        if arguments.count == 3, arguments[2] == "commands" {
            return await CommandedWriter(path: arguments[1]).run()
        }
        if arguments.count == 4, arguments[3] == "draft" {
            return await CrashDraft.run(at: arguments[1])
        }
        if arguments.count == 4, arguments[3] == "wait" {
            return await CrashWait.run(at: arguments[1])
        }
        if arguments.count == 4, arguments[3] == "terminate" {
            return await CrashWait.run(at: arguments[1], endedBy: SIGTERM)
        }
        if arguments.count == 5, arguments[3] == "share" {
            return await CrashReplica.run(arguments[4], in: arguments[1])
        }
        if arguments.count == 5, arguments[3] == "store" {
            return CrashStore.run(at: arguments[1], type: arguments[4])
        }
        if arguments.count == 5, arguments[3] == "template" {
            return await CrashStore.runTemplate(arguments[4], at: arguments[1])
        }
        guard arguments.count >= 4, let seed = UInt64(arguments[2]) else {
            report("usage: QuireCrashWriter FOLDER SEED STEP…")
            exit(2)
        }
        var session: CrashSession? = CrashSession(folder: arguments[1], seed: seed)
        for text in arguments.dropFirst(3) {
            guard let step = CrashStep(text) else {
                report("wrong: there is no step \(text)")
                exit(2)
            }
            if await session?.run(step) != true { exit(1) }
        }
        session = nil
        await reportOpenFiles(below: arguments[1])
        report("closed")
    }

    /// Unlocks the domain that the test protects its documents by, if it does; see `TestProtection`.
    private static func unlockProtection() {
        guard
            let folder = ProcessInfo.processInfo.environment["QUIRE_TEST_PROTECTION_FOLDER"]
        else { return }
        do {
            let domain = try ProtectionDomain.domain(of: folder + "/keybag")
            try domain.unlock(.keyFile(KeyFile.read(folder + "/key")))
            ProtectionDomain.default = domain
        } catch {
            report("wrong: \(error)")
            exit(2)
        }
    }

    /// Says which files are still open, once those who are about to close them have had their time.
    @MainActor
    private static func reportOpenFiles(below folder: String) async {
        var open: [String] = []
        for _ in 0..<200 {
            let names =
                (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
            open = names.compactMap {
                try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0)
            }
            .filter { $0.hasPrefix(folder) }
            if open.isEmpty { return }
            try? await Task.sleep(for: .milliseconds(5))
        }
        for path in open { report("wrong: “\(path)” is still open") }
    }

    /// Prints a line at once, by one call, so that a killed process has printed whole lines.
    static func report(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }
}
