import Foundation
import Quire
import QuireTestSupport

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

    /// Opens a package as a user would and looks at everything in it; and once more, which must show the same. If it is an
    /// archive, looks at what it contains.
    func look(at name: String) async -> Finding {
        if name.hasSuffix(".zip") { return await lookIntoArchive(name) }
        var finding = Finding()
        let path = folder + "/" + name
        let layout = DocumentPackageLayout(path: path)
        let files = TestProtection.isOn ? filesAsTheyAre() : [:]
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
            if TestProtection.isOn {
                finding.problems += Self.clearTexts(of: found, in: files)
                if document.fileProtection != TestProtection.fileProtection {
                    finding.problems.append("it is \(document.fileProtection ?? .none)")
                }
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

    /// Extracts an archive, which must be whole, and looks at the package; this removes what interrupted exports and extractions
    /// have left beside it.
    private func lookIntoArchive(_ name: String) async -> Finding {
        var finding = Finding()
        let extracted = "extracted.quire"
        do {
            if FileSystem.exists(folder + "/" + name) {
                let result = try DocumentPackage.extract(
                    folder + "/" + name, to: folder + "/" + extracted)
                finding = await look(at: extracted)
                if !result.isVerified { finding.problems.append("it has no manifest") }
                try FileSystem.removeTree(folder + "/" + extracted)
            } else {
                try TemporarySibling.makeFile(beside: folder + "/" + name).remove()
            }
            finding.problems += try FileSystem.names(in: folder)
                .filter(FileSystem.isTemporaryName).map { "“\($0)” is left over" }
        } catch {
            finding.problems.append("\((error as? QuireError)?.message ?? "\(error)")")
        }
        return finding
    }

    /// All files in the folder.
    private func filesAsTheyAre() -> [String: Data] {
        var files: [String: Data] = [:]
        for entry in (try? FileSystem.contentsOfTree(folder)) ?? []
        where entry.information.kind == .regular {
            files[entry.path] = try? FileSystem.contents(of: FileSystem.path(folder, entry.path))
        }
        return files
    }

    /// The files in which something of a protected document is in clear.
    private static func clearTexts(
        of content: CrashContent, in files: [String: Data]
    ) -> [String] {
        let texts = content.notes.values.flatMap { note in
            // Short payloads and titles could be there by chance.
            [Data(note.title.utf8), note.payload.data.prefix(16)].filter { $0.count >= 8 }
        }
        return files.filter { file in texts.contains { file.value.range(of: $0) != nil } }
            .map { "“\($0.key)” has something in clear" }
    }

    /// Whether a property list is missing or can be read.
    private static func isWhole(_ path: String) -> Bool {
        guard let data = try? FileSystem.contents(of: path) else { return true }
        return (try? PropertyListSerialization.propertyList(from: data, format: nil)) != nil
    }
}
