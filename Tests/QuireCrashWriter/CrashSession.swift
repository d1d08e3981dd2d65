import Foundation
import Quire
import QuireDocuments

/// The document that the writer works on, and what it must contain.
@MainActor
final class CrashSession {
    /// The name that the document has first.
    nonisolated static let name = "a.quire"

    private let folder: String
    private let seed: UInt64
    private let document: ManagedDocument
    private var name = CrashSession.name
    private var content = CrashContent()
    private var retries = false
    private var spareDescriptors: Int?
    /// A version that was kept, and of which save.
    private var kept: (version: DocumentVersion.ID, saves: Int)?

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
        case .retry: retries = true
        case .descriptors(let count): spareDescriptors = count
        case .create: return await attempt("create", create)
        case .open:
            let isThere = FileManager.default.fileExists(atPath: document.path)
            return await attempt("open", isThere ? { try await self.open(model: nil) } : create)
        case .migrate:
            document.migrationOptions = StoreMigrationOptions()
            defer { document.migrationOptions = nil }
            return await attempt("migrate", { try await self.open(model: CrashContent.nextModel) })
        case .save(let last):
            while content.saves < last {
                guard await save() else { return false }
            }
        case .autosave(let last):
            document.autosavePolicy = AutosavePolicy(delay: .milliseconds(1))
            defer { document.autosavePolicy = .never }
            while content.saves < last {
                guard await autosave() else { return false }
            }
        case .importNotes: return await importNotes()
        case .copy(let name): return await saveTo(name, replacing: false)
        case .replace(let name): return await saveTo(name, replacing: true)
        case .export(let name):
            guard change(for: name) else { return false }
            return await saveTo(name, replacing: false)
        case .saveAs(let name): return await saveAs(name)
        case .move(let name): return await move(to: name)
        case .revertTo(let name): return await revert(to: name)
        case .archive(let name): return await exportArchive(name)
        case .extract(let archive, let name): return await extract(archive, to: name)
        case .keep: return await keepVersion()
        case .restore: return await restoreVersion()
        case .close: return await attempt("close", { try await self.document.close() })
        }
        return true
    }

    // MARK: - Steps

    private func create() async throws {
        begin(name, 0)
        try await document.create(model: CrashContent.model)
        end(name, 0)
    }

    private func open(model: ManagedObjectModel?) async throws {
        try await document.open(model: model)
        content = try CrashContent(of: document)
        expectContent(content.saves)
    }

    /// The document must have the content of a save.
    private func expectContent(_ saves: Int) {
        let expected = CrashContent(saves: saves, seed: seed)
        if (try? CrashContent(of: document)) != expected {
            CrashWriter.report("wrong: the content is not that of save \(saves)")
        }
        content = expected
    }

    /// Changes the document to what the next save shall leave in a package.
    private func change(for name: String) -> Bool {
        begin(name, content.saves + 1)
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

    private func save() async -> Bool {
        guard change(for: name),
            await attempt("save", { try await self.document.save() }, then: checkIsUnsaved)
        else { return false }
        end(name, content.saves)
        return true
    }

    private func autosave() async -> Bool {
        guard change(for: name),
            await attempt(
                "autosave", waitForAutosave, again: { try await self.document.autosave() })
        else { return false }
        end(name, content.saves)
        return true
    }

    private func waitForAutosave() async throws {
        while document.hasUnsavedChanges {
            if let error = document.lastSaveError { throw error }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    private func importNotes() async -> Bool {
        begin(name, content.saves + CrashContent.importWeight)
        let (before, document) = (content, document)
        guard
            await attempt(
                "import", { try before.importNext(seed: self.seed, into: document) },
                then: {
                    if (try? CrashContent(of: document)) != before {
                        CrashWriter.report("wrong: an import failed, and something is there")
                    }
                })
        else { return false }
        content.addImport(seed: seed)
        expectContent(content.saves)
        // As `quire import` does.
        document.updateChangeCount(.done)
        guard await attempt("save", { try await document.save() }) else { return false }
        end(name, content.saves)
        return true
    }

    private func saveTo(_ name: String, replacing: Bool) async -> Bool {
        begin(name, content.saves)
        let path = folder + "/" + name
        let isDone = await attempt("saveTo") {
            try await self.document.writeCopy(to: URL(fileURLWithPath: path), replacing: replacing)
        }
        if isDone { end(name, content.saves) }
        return isDone
    }

    private func saveAs(_ name: String) async -> Bool {
        guard change(for: name) else { return false }
        let path = folder + "/" + name
        let isDone = await attempt("saveAs") {
            try await self.document.save(as: URL(fileURLWithPath: path))
        }
        if isDone {
            end(name, content.saves)
            self.name = name
        }
        return isDone
    }

    private func move(to name: String) async -> Bool {
        begin(name, content.saves)
        begin(self.name, nil)
        let path = folder + "/" + name
        let isDone = await attempt("move") {
            try await self.document.move(to: URL(fileURLWithPath: path))
        }
        if isDone {
            end(name, content.saves)
            end(self.name, nil)
            self.name = name
        }
        return isDone
    }

    private func revert(to name: String) async -> Bool {
        let path = folder + "/" + name
        do {
            let saves = try await saves(at: path)
            begin(self.name, saves)
            guard
                await attempt(
                    "revert", { try await self.document.revert(to: URL(fileURLWithPath: path)) })
            else {
                return false
            }
            expectContent(saves)
            end(self.name, saves)
            return true
        } catch {
            CrashWriter.report("wrong: \(error)")
            return false
        }
    }

    /// The save that a document stands at that may not be open.
    private func saves(at path: String) async throws -> Int {
        let document = ManagedDocument(path: path)
        try await document.open(readOnly: true)
        let saves = try CrashContent(of: document).saves
        try await document.close()
        return saves
    }

    private func exportArchive(_ name: String) async -> Bool {
        await perform("archive", name) {
            let package = try DocumentPackage.open(at: self.document.path, readOnly: true)
            defer { try? package.close() }
            try package.export(to: self.folder + "/" + name, replacing: true, protection: .keep)
        }
    }

    private func extract(_ archive: String, to name: String) async -> Bool {
        await perform("extract", name) {
            try DocumentPackage.extract(
                self.folder + "/" + archive, to: self.folder + "/" + name)
        }
    }

    /// Makes something of the save that the document stands at.
    private func perform(_ step: String, _ name: String, _ body: () throws -> Void) async -> Bool {
        do {
            let saves =
                document.documentState.contains(.closed)
                ? try await saves(at: document.path) : content.saves
            begin(name, saves)
            guard await attempt(step, body) else { return false }
            end(name, saves)
            return true
        } catch {
            report(error, of: step)
            return false
        }
    }

    private func keepVersion() async -> Bool {
        await attempt("keep") {
            let version = try await self.document.keepVersion()
            if self.kept == nil { self.kept = (version.id, self.content.saves) }
        }
    }

    private func restoreVersion() async -> Bool {
        guard let kept else { return false }
        begin(name, kept.saves)
        guard await attempt("restore", { try await self.document.restore(kept.version) }) else {
            return false
        }
        expectContent(kept.saves)
        end(name, kept.saves)
        return true
    }

    private func begin(_ name: String, _ saves: Int?) {
        CrashWriter.report("begin \(name) \(saves.map(String.init) ?? "missing")")
    }

    private func end(_ name: String, _ saves: Int?) {
        CrashWriter.report("end \(name) \(saves.map(String.init) ?? "missing")")
    }

    // MARK: - Failing

    private func attempt(
        _ name: String, _ body: () async throws -> Void, then check: () -> Void = {},
        again: (() async throws -> Void)? = nil
    ) async -> Bool {
        do {
            try await withFewDescriptors(body)
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

    private func withFewDescriptors(_ body: () async throws -> Void) async throws {
        guard let spareDescriptors else { return try await body() }
        // Dispatch, which ends a process that it cannot make its timers and queues of events in, has them made before.
        try await Task.sleep(for: .milliseconds(1), clock: .continuous)
        try await Task.sleep(for: .milliseconds(1), clock: .suspending)
        await withCheckedContinuation { made in
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { made.resume() }
        }
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        // The limit is one of numbers: those that are free below the greatest, because others were inherited, are taken.
        let greatest = open.compactMap { Int32($0) }.max() ?? 2
        var fillers: [Int32] = []
        defer { for descriptor in fillers { Foundation.close(descriptor) } }
        repeat {
            fillers.append(Foundation.open("/dev/null", O_RDONLY | O_CLOEXEC))
        } while fillers[fillers.count - 1] >= 0 && fillers[fillers.count - 1] < greatest
        if let last = fillers.popLast(), last >= 0 { Foundation.close(last) }
        var old = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &old)
        var few = old
        few.rlim_cur = rlim_t(greatest + 1 + Int32(spareDescriptors))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &few)
        defer { setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &old) }
        try await body()
    }

    private func report(_ error: any Error, of name: String) {
        let error = error as? QuireError
        CrashWriter.report(
            "failed \(name) \(error?.code.rawValue ?? "unknown"): \(error?.message ?? "")")
    }

    static let unreadable = "a save failed, and the document cannot be read"

    private func checkIsUnsaved() {
        if !document.hasUnsavedChanges {
            CrashWriter.report("wrong: a save failed, and the document has no unsaved changes")
        }
        if !document.documentState.contains(.savingError) {
            CrashWriter.report("wrong: a save failed, and the document's state does not say so")
        }
        do {
            if try CrashContent(of: document) != content {
                CrashWriter.report("wrong: a save failed, and the document has lost changes")
            }
        } catch {
            CrashWriter.report("wrong: \(Self.unreadable): \(error)")
        }
    }
}
