import Foundation
import Quire
import QuireDocuments

/// The document that the writer works on, and what it must contain.
@MainActor
final class CrashSession {
    /// The name of the document.
    nonisolated static let name = "a.quire"

    private let folder: String
    private let seed: UInt64
    private var document: ManagedDocument
    private var content = CrashContent()
    private var retries = false

    init(folder: String, seed: UInt64) {
        self.folder = folder
        self.seed = seed
        document = ManagedDocument(path: folder + "/" + Self.name)
        document.autosavePolicy = .never
    }

    /// Runs a step, again if it fails and that is wanted.
    ///
    /// - Returns: Whether it was done.
    func run(_ step: CrashStep) async -> Bool {
        switch step {
        case .retry:
            retries = true
            return true
        case .save(let last):
            while content.saves < last {
                guard change(),
                    await attempt("save", { try await self.document.save() }, then: checkIsUnsaved)
                else { return false }
                CrashWriter.report("end \(Self.name) \(content.saves)")
            }
            return true
        case .autosave(let last):
            document.autosavePolicy = AutosavePolicy(delay: .milliseconds(1))
            defer { document.autosavePolicy = .never }
            while content.saves < last {
                guard change(),
                    await attempt(
                        "autosave", waitForAutosave, again: { try await self.document.autosave() })
                else { return false }
                CrashWriter.report("end \(Self.name) \(content.saves)")
            }
            return true
        case .create: return await attempt("create", create)
        case .open:
            let isThere = FileManager.default.fileExists(atPath: document.path)
            return await attempt("open", isThere ? { try await self.open(model: nil) } : create)
        case .migrate, .rewrite:
            let options = document.migrationOptions
            document.migrationOptions = StoreMigrationOptions()
            if step == .rewrite {
                document.migrationOptions?.policies = ["Note": { EntityMigrationPolicy() }]
            }
            defer { document.migrationOptions = options }
            return await attempt("migrate", { try await self.open(model: CrashContent.nextModel) })
        case .copy(let name): return await copy(to: name, replacing: false)
        case .replace(let name): return await copy(to: name, replacing: true)
        case .close: return await attempt("close", close)
        }
    }

    // MARK: - Steps

    private func create() async throws {
        CrashWriter.report("begin \(Self.name) 0")
        try await document.create(model: CrashContent.model)
        CrashWriter.report("end \(Self.name) 0")
    }

    private func open(model: ManagedObjectModel?) async throws {
        try await document.open(model: model)
        let found = try CrashContent(of: document)
        content = CrashContent(saves: found.saves, seed: seed)
        if found != content { CrashWriter.report("wrong: the content is not save \(found.saves)") }
    }

    /// Changes the document to what the next save shall leave.
    private func change() -> Bool {
        CrashWriter.report("begin \(Self.name) \(content.saves + 1)")
        do {
            try content.advance(seed: seed, in: document)
            // Until then it does not know.
            document.managedObjectContext.processPendingChanges()
            return true
        } catch {
            CrashWriter.report("wrong: \(error)")
            return false
        }
    }

    private func waitForAutosave() async throws {
        while document.hasUnsavedChanges {
            if let error = document.lastSaveError { throw error }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    private func copy(to name: String, replacing: Bool) async -> Bool {
        CrashWriter.report("begin \(name) \(content.saves)")
        let path = folder + "/" + name
        let isDone = await attempt("copy") {
            try await self.document.saveTo(path, replacing: replacing)
        }
        if isDone { CrashWriter.report("end \(name) \(content.saves)") }
        return isDone
    }

    private func close() async throws { try await document.close() }

    // MARK: - Failing

    private func attempt(
        _ name: String, _ body: () async throws -> Void, then check: () -> Void = {},
        again: (() async throws -> Void)? = nil
    ) async -> Bool {
        do {
            try await body()
            return true
        } catch { report(error, of: name) }
        check()
        // A call is made to fail once in each thread, and another one may be next.
        for _ in 0..<(retries ? 20 : 0) {
            do {
                if let again { try await again() } else { try await body() }
                return true
            } catch { report(error, of: name) }
            check()
        }
        if retries { CrashWriter.report("wrong: \(name) does not succeed any more") }
        return false
    }

    private func report(_ error: any Error, of name: String) {
        let error = error as? QuireError
        CrashWriter.report(
            "failed \(name) \(error?.code.rawValue ?? "unknown"): \(error?.message ?? "")")
    }

    private func checkIsUnsaved() {
        if !document.hasUnsavedChanges {
            CrashWriter.report("wrong: a save failed, and the document has no unsaved changes")
        }
        if !document.documentState.contains(.savingError) {
            CrashWriter.report("wrong: a save failed, and the document's state does not say so")
        }
        if (try? CrashContent(of: document)) != content {
            CrashWriter.report("wrong: a save failed, and the document has lost changes")
        }
    }
}
