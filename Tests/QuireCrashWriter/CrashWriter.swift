import Foundation
import Quire
import QuireDocuments

/// Saves a document again and again, as a seed determines, and says on standard output how far it is, so that a test can
/// kill it anywhere and know what must be on disk.
///
///     QuireCrashWriter PATH SEED SAVES [FIRST]
///     QuireCrashWriter PATH SEED verify
///     QuireCrashWriter PATH SEED draft
///     QuireCrashWriter PATH commands
///
/// It prints `saving N` before save N begins and `saved N` when it has returned. The content after save N depends on the
/// seed and N only; ``CrashContent`` says how. `verify` opens what is there, prints `stands at N`, and fails if the content
/// is not that of save N or anything is wrong with the package. For `commands` see ``CommandedWriter``.
@main
enum CrashWriter {
    @MainActor
    static func main() async throws {
        let arguments = CommandLine.arguments
        if arguments.count == 3, arguments[2] == "commands" {
            return await CommandedWriter(path: arguments[1]).run()
        }
        if arguments.count == 4, arguments[3] == "draft" {
            return try await CrashDraft.run(at: arguments[1])
        }
        guard arguments.count >= 4, let seed = UInt64(arguments[2]),
            arguments[3] == "verify" || Int(arguments[3]) != nil
        else {
            report("usage: QuireCrashWriter PATH SEED SAVES [FIRST], or PATH SEED verify")
            exit(2)
        }
        guard let saves = Int(arguments[3]) else {
            exit(await verify(arguments[1], seed: seed) ? 0 : 1)
        }
        let first = arguments.count > 4 ? Int(arguments[4]) ?? 1 : 1
        let document = ManagedDocument(path: arguments[1])
        document.autosavePolicy = .never
        do {
            // Killed after it was made and before anything was saved, it is there already.
            if first == 1, !FileManager.default.fileExists(atPath: arguments[1]) {
                try await document.create(model: CrashContent.model)
                report("created")
            } else {
                try await document.open()
            }
            var content = CrashContent()
            while content.saves < first - 1 { content.advance(seed: seed) }
            for number in stride(from: first, through: saves, by: 1) {
                try content.advance(seed: seed, in: document)
                report("saving \(number)")
                try await document.save()
                report("saved \(number)")
            }
            try await document.close()
            report("closed")
        } catch let error as QuireError {
            report("failed \(error.code.rawValue): \(error.message)")
            exit(1)
        }
    }

    /// Opens a document as a user would, and compares it with what the saves must have left.
    @MainActor
    private static func verify(_ path: String, seed: UInt64) async -> Bool {
        do {
            let document = ManagedDocument(path: path)
            try await document.open()
            let found = try CrashContent(of: document)
            report("stands at \(found.saves)")
            var expected = CrashContent()
            while expected.saves < found.saves { expected.advance(seed: seed) }
            if found != expected { report("the content is not that of save \(found.saves)") }
            let problems = try await document.check()
            for problem in problems { report(problem.message) }
            try await document.close()
            return found == expected && problems.isEmpty
        } catch {
            report("failed: \(error)")
            return false
        }
    }

    /// Prints a line at once, by one call, so that a killed process has printed whole lines.
    private static func report(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }
}
