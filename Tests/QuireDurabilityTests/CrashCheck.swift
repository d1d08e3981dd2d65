import Foundation
import Quire

@testable import QuireCrashWriter
@testable import QuireDocuments

/// Looks at what an interruption has left, as a user and as a sceptic.
@MainActor
struct CrashCheck {
    /// The folder that the packages are in.
    let folder: String
    let seed: UInt64

    /// What was found of a package.
    struct Finding {
        /// The save that it stands at, or `nil` if it is missing.
        var stand: Int?
        /// What is wrong.
        var problems: [String] = []
    }

    /// What is wrong with packages.
    ///
    /// - Parameter allowed: The saves that each package may stand at; `nil` if it may be missing.
    func problems(allowing allowed: [String: Set<Int?>]) async -> [String] {
        var problems: [String] = []
        for (name, stands) in allowed.sorted(by: { $0.key < $1.key }) {
            let finding = await look(at: name)
            problems += Self.problems(finding, of: name, allowing: stands)
        }
        return problems
    }

    /// What is wrong with what was found.
    static func problems(
        _ finding: Finding, of name: String, allowing stands: Set<Int?>
    ) -> [String] {
        var problems = finding.problems.map { "\(name): \($0)" }
        if problems.isEmpty, !stands.contains(finding.stand) {
            problems.append(
                "\(name) \(Self.describe(finding.stand)), not \(stands.map(Self.describe).sorted())"
            )
        }
        return problems
    }

    private static func describe(_ stand: Int?) -> String {
        stand.map { "stands at \($0)" } ?? "is missing"
    }

    /// Opens a package as a user would and looks at everything in it; and once more, which must show the same.
    func look(at name: String) async -> Finding {
        var finding = Finding()
        let path = folder + "/" + name
        let layout = DocumentPackageLayout(path: path)
        if !Self.isWhole(layout.metadata) { finding.problems.append("the metadata are torn") }
        do {
            let document = ManagedDocument(path: path)
            document.autosavePolicy = .never
            do {
                try await document.open()
            } catch let error as QuireError where error.code == .notFound {
                if FileSystem.exists(path) { throw error }
                return finding
            }
            let found = try CrashContent(of: document)
            finding.stand = found.saves
            if found != CrashContent(saves: found.saves, seed: seed) {
                finding.problems.append("the content is not that of save \(found.saves)")
            }
            finding.problems += try await document.check().map(\.message)
            finding.problems += try document.package.leftovers().map { "“\($0)” is left over" }
            try await document.close()

            let beside = ["-wal", "-shm", "-journal"].filter {
                FileSystem.exists(layout.store + $0)
            }
            if !beside.isEmpty { finding.problems.append("closed, it has a \(beside)") }
            if FileSystem.exists(layout.lock) { finding.problems.append("closed, it has a lock") }
            try await document.open(readOnly: true)
            if try CrashContent(of: document) != found {
                finding.problems.append("opened again, it has another content")
            }
            try await document.close()
        } catch {
            finding.problems.append("\((error as? QuireError)?.message ?? "\(error)")")
        }
        return finding
    }

    /// Whether a property list is missing or can be read.
    private static func isWhole(_ path: String) -> Bool {
        guard let data = try? FileSystem.contents(of: path) else { return true }
        return (try? PropertyListSerialization.propertyList(from: data, format: nil)) != nil
    }
}
