import Foundation
import Quire

/// Reads and writes the generations of a package's additional content.
///
/// A generation is a folder that never changes. A save that changes additional content writes a new one, in which
/// unchanged files are hard links to those of the one before, and makes it durable **before** the store's transaction
/// records its number. So the store always refers to an existing generation, and rows and files belong to the same save.
/// Other generations are leftovers of interrupted or finished saves.
struct AdditionalContentStore: Sendable {
    /// The key of the store's record with the number of the current generation.
    static let recordKey = "additionalContentGeneration"
    /// The key of the record that a subclass writes and reads the files itself, in a folder.
    static let folderRecordKey = "additionalContentFolder"

    let layout: DocumentPackageLayout
    /// The class key of the files; `nil` for unsealed files.
    let classKey: ClassKey?

    /// The generation in a store's records, or `nil` if there is no additional content.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the record is not a number.
    func generation(in records: [String: String]) throws -> Int? {
        guard let text = records[Self.recordKey] else { return nil }
        guard let generation = DocumentPackageLayout.generation(ofFolder: text) else {
            throw QuireError(
                .invalidFormat,
                "The store of “\(layout.path)” refers to the additional content “\(text)”, which is not a number.",
                file: layout.store)
        }
        return generation
    }

    /// The paths and sizes of the files of a generation, sorted by the paths' bytes.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if there is anything but files and folders.
    func files(in generation: Int?) throws -> [(path: FileName, size: Int64)] {
        guard let generation else { return [] }
        let folder = layout.additionalContent(generation: generation)
        do {
            let files = try FileSystem.contentsOfTree(folder, beneath: layout.path).compactMap {
                path, information in
                try information.require(nil, at: FileSystem.path(folder, path))
                let size = ContentFile.count(of: information, sealed: classKey != nil)
                return information.kind == .regular ? (FileName(path), size) : nil
            }
            try checkIsThere(generation)
            return files.sorted { $0.0 < $1.0 }
        } catch let error as QuireError where error.code == .notFound {
            throw missing(generation, error)
        }
    }

    /// The file of a generation for a path given by a program; see ``AdditionalContentNames/name(for:)``.
    func name(for path: String, in generation: Int?) throws -> FileName {
        let name = FileName(path)
        guard let generation, !path.utf8.allSatisfy({ $0 < 0x80 }) else { return name }
        let folder = layout.additionalContent(generation: generation)
        for name in [name, name.composed]
        where try FileSystem.hasEntry(
            at: FileSystem.path(folder, name.text), beneath: layout.path)
        {
            return name
        }
        return try AdditionalContentNames(files(in: generation).map(\.path)).name(for: path)
    }

    /// The bytes of a file of a generation, or `nil` if it has no such file.
    func data(at path: FileName, in generation: Int?) throws -> Data? {
        try file(at: path, in: generation)?.readAll()
    }

    /// A file of a generation, open for reading, or `nil` if it has no such file.
    func file(at path: FileName, in generation: Int?) throws -> ContentFile? {
        guard let generation else { return nil }
        let folder = layout.additionalContent(generation: generation)
        do {
            return try ContentFile(
                OpenFile.open(
                    FileSystem.path(folder, path.text), beneath: layout.path, for: .reading),
                unsealing: classKey)
        } catch let error as QuireError where error.code == .notFound {
            if FileSystem.exists(folder, beneath: layout.path) { return nil }
            throw missing(generation, error)
        }
    }

    /// The records of a save that makes a generation the current one.
    static func records(
        ofGeneration generation: Int?, after changes: AdditionalContentChanges
    ) -> [String: String?] {
        var records: [String: String?] = [recordKey: generation.map(String.init)]
        if changes.rewriting != nil { records[folderRecordKey] = "1" }
        return records
    }

    /// Writes a new generation: an old one with changes. When it returns the generation is durable, but not recorded.
    ///
    /// - Parameter records: The store's records.
    /// - Returns: Its number, or `nil` if no file is left.
    func write(
        _ changes: AdditionalContentChanges, after live: Int?, _ records: [String: String]
    ) throws -> Int? {
        if let rewriting = changes.rewriting {
            // A class that could not read the files must not replace them.
            if classKey != nil, live != nil, records[Self.folderRecordKey] == nil {
                throw unreadable()
            }
            return try write(rewriting, changes.files, after: live)
        }
        var unchanged = Set(try files(in: live).map(\.path))
        for path in changes.files.keys { unchanged.remove(path) }
        let added = changes.files.filter { !$0.value.isRemoval }
        if unchanged.isEmpty && added.isEmpty { return nil }

        let number = try nextGeneration(after: live)
        let folder = layout.additionalContent(generation: number)
        let temporary = FileSystem.temporarySibling(of: folder, for: "new")
        do {
            try FileSystem.building(folder, as: temporary) {
                try fill(temporary, with: added, and: unchanged, of: live)
            }
            try FileSystem.renameWithoutReplacing(temporary, to: folder, beneath: layout.path)
            try FileSystem.synchronizeFolder(layout.additionalContent, beneath: layout.path)
        } catch {
            try? FileSystem.removeTree(temporary, beneath: layout.path)
            throw error
        }
        return number
    }

    /// Fills a new folder with files, durably except for its own name.
    private func fill(
        _ folder: String, with added: [FileName: AdditionalContentChange],
        and unchanged: Set<FileName>, of live: Int?
    ) throws {
        try FileSystem.makeFolder(folder, beneath: layout.path)
        for (path, change) in added.sorted(by: { $0.key < $1.key }) {
            let target = FileSystem.path(folder, path.text)
            try makeFolder(of: target)
            try change.write(to: target, beneath: layout.path, sealing: classKey)
        }
        if let live {
            let source = layout.additionalContent(generation: live)
            for path in unchanged {
                let target = FileSystem.path(folder, path.text)
                try makeFolder(of: target)
                if try FileSystem.linkOrCopy(
                    FileSystem.path(source, path.text), beneath: layout.path, to: target,
                    within: layout.path)
                {
                    try OpenFile.open(target, beneath: layout.path, for: .reading)
                        .synchronize()
                }
            }
        }
        try FileSystem.synchronizeFolders(ofTree: folder, beneath: layout.path)
    }

    /// Turns a folder of the package into a new generation. When it returns the generation is durable, but not recorded.
    ///
    /// - Returns: Its number.
    func adopt(_ path: String, after live: Int? = nil) throws -> Int {
        let number = try nextGeneration(after: live)
        try FileSystem.synchronizeTree(path, beneath: layout.path)
        try FileSystem.renameWithoutReplacing(
            path, to: layout.additionalContent(generation: number), beneath: layout.path)
        try FileSystem.synchronizeFolder(layout.additionalContent, beneath: layout.path)
        return number
    }

    /// An unused number for a generation. Creates the folder of the generations if it is missing.
    private func nextGeneration(after live: Int?) throws -> Int {
        try FileSystem.makeFolder(
            layout.additionalContent, beneath: layout.path, withIntermediates: true)
        // Also if it existed: the process that created it may have been killed before it was durable.
        if live == nil { try FileSystem.synchronizeFolder(layout.path) }
        let (next, overflow) = try (generations() + [live ?? 0]).reduce(0, max)
            .addingReportingOverflow(1)
        guard !overflow else {
            throw QuireError(
                .invalidFormat,
                "“\(layout.additionalContent)” already contains the generation with the highest number; remove folders that are "
                    + "not part of the document.",
                file: layout.additionalContent)
        }
        return next
    }

    /// Removes a generation that no save has recorded. If it cannot be removed, the next opening removes it.
    func discard(_ generation: Int) {
        try? FileSystem.removeTree(
            layout.additionalContent(generation: generation), beneath: layout.path)
    }

    /// Removes all generations except one. Requires the package's lock.
    ///
    /// Files that cannot be removed are kept until the next call.
    ///
    /// - Parameter own: The generations to remove; `nil` for all.
    func collectGarbage(except live: Int?, of own: Set<Int>? = nil) {
        for path in leftovers(except: live, of: own) {
            // Renamed first, so that a concurrent listing finds all of it, or no folder.
            let removed = FileSystem.temporarySibling(of: path, for: "removed")
            let isMoved: Void? = try? FileSystem.renameWithoutReplacing(
                path, to: removed, beneath: layout.path)
            if isMoved == nil { continue }
            try? FileSystem.removeTree(removed, beneath: layout.path)
        }
    }

    /// Throws if a generation was removed while it was listed or copied; call it afterwards.
    ///
    /// - Throws: ``QuireError`` with code `notFound`.
    func checkIsThere(_ generation: Int) throws {
        let folder = layout.additionalContent(generation: generation)
        if !FileSystem.exists(folder, beneath: layout.path) {
            throw missing(generation, FileSystem.failure("open", folder, errno: ENOENT))
        }
    }

    /// The generations that are not the current one, finished or not.
    ///
    /// - Parameter own: The generations that are meant; `nil` for all.
    func leftovers(except live: Int?, of own: Set<Int>? = nil) -> [String] {
        let names =
            (try? FileSystem.names(in: layout.additionalContent, beneath: layout.path)) ?? []
        return names.filter {
            if let generation = DocumentPackageLayout.generation(ofFolder: $0) {
                return generation != live && own?.contains(generation) != false
            }
            return FileSystem.isTemporaryName($0)
        }
        .map { FileSystem.path(layout.additionalContent, $0) }
    }

    private func generations() throws -> [Int] {
        try FileSystem.names(in: layout.additionalContent, beneath: layout.path)
            .compactMap(DocumentPackageLayout.generation(ofFolder:))
    }

    func makeFolder(of path: String) throws {
        try FileSystem.makeFolder(
            FileSystem.folder(of: path), beneath: layout.path, withIntermediates: true)
    }

    /// The error of a document class that writes the files itself, and has not read the existing ones.
    private func unreadable() -> QuireError {
        QuireError(
            .protectionUnavailable,
            "The additional content of the protected document “\(layout.path)” was not written by this document class, so it was not read and cannot be replaced; remove the protection, save the document, and protect it again.",
            file: layout.path)
    }

    private func missing(_ generation: Int, _ error: QuireError) -> QuireError {
        QuireError(
            .notFound,
            "The additional content of “\(layout.path)”, generation \(generation), is missing; "
                + "restore it from a backup.",
            file: layout.additionalContent(generation: generation), underlying: error)
    }
}

// MARK: - Rewriting

extension AdditionalContentStore {
    /// Writes a new generation that a subclass of ``ManagedDocument`` fills in its own way.
    ///
    /// - Parameter files: The files to add and remove.
    /// - Returns: Its number, or `nil` if no file is left.
    func write(
        _ rewriting: AdditionalContentChanges.Rewriting,
        _ files: [FileName: AdditionalContentChange], after live: Int?
    ) throws -> Int? {
        let temporary = FileSystem.temporarySibling(of: layout.additionalContent, for: "new")
        do {
            return try FileSystem.building(layout.additionalContent, as: temporary) {
                try fill(temporary, by: rewriting, files, after: live)
            }
        } catch {
            try? FileSystem.removeTree(temporary, beneath: layout.path)
            throw error
        }
    }

    private func fill(
        _ temporary: String, by rewriting: AdditionalContentChanges.Rewriting,
        _ files: [FileName: AdditionalContentChange], after live: Int?
    ) throws -> Int? {
        try FileSystem.makeFolder(temporary, beneath: layout.path)
        if let classKey {
            try seal(temporary, by: rewriting, after: live, classKey)
        } else {
            try rewriting(temporary, live.map(layout.additionalContent(generation:)))
        }
        for (path, change) in files.sorted(by: { $0.key < $1.key }) {
            let target = FileSystem.path(temporary, path.text)
            // Not changed in place: it may be a hard link to a file of the last save.
            _ = try FileSystem.removeFileIfPresent(target, beneath: layout.path)
            if change.isRemoval { continue }
            try makeFolder(of: target)
            try change.write(to: target, beneath: layout.path, sealing: classKey)
        }
        guard try hasFiles(temporary) else {
            try FileSystem.removeTree(temporary, beneath: layout.path)
            return nil
        }
        return try adopt(temporary, after: live)
    }

    /// Fills a folder with the files that a subclass writes, sealed; unsealed bytes are never written to disk.
    ///
    /// - Complexity: O(*n*) in the bytes of the last generation and of those that are new.
    private func seal(
        _ folder: String, by rewriting: AdditionalContentChanges.Rewriting, after live: Int?,
        _ classKey: ClassKey
    ) throws {
        let memory = try TemporarySibling.makeFolderInMemory()
        defer { memory.remove() }
        let written = FileSystem.path(memory.path, "new")
        try FileSystem.makeFolder(written)
        var original: String?
        // Unchanged files are hard links to these.
        var unchanged: [UInt64: FileName] = [:]
        if let live {
            let folder = FileSystem.path(memory.path, "original")
            try unseal(live, to: folder)
            for (path, information) in try FileSystem.contentsOfTree(folder)
            where information.kind == .regular {
                unchanged[information.inode] = FileName(path)
            }
            original = folder
        }
        try rewriting(written, original)
        for (path, information) in try FileSystem.contentsOfTree(written) {
            let target = FileSystem.path(folder, path)
            switch information.kind {
            case .folder: try FileSystem.makeFolder(target, beneath: layout.path)
            case .symbolicLink, .other: throw neitherFileNorFolder(path)
            case .regular:
                if let live, let same = unchanged[information.inode] {
                    let source = FileSystem.path(
                        layout.additionalContent(generation: live), same.text)
                    try FileSystem.linkOrCopy(
                        source, beneath: layout.path, to: target, within: layout.path)
                } else {
                    try SpooledFile.seal(
                        FileSystem.path(written, path), to: target, within: layout.path, classKey)
                }
            }
        }
    }

    /// Writes the files of a generation unsealed to a new folder, which must be in memory.
    func unseal(_ generation: Int, to folder: String) throws {
        try FileSystem.makeFolder(folder)
        for (path, _) in try files(in: generation) {
            let target = FileSystem.path(folder, path.text)
            try FileSystem.makeFolder(FileSystem.folder(of: target), withIntermediates: true)
            guard let source = try file(at: path, in: generation) else { continue }
            defer { source.close() }
            let copy = try OpenFile.open(target, for: .creating)
            defer { copy.close() }
            try source.forEachBlock { try copy.write($0) }
            let sealed = try FileSystem.information(
                at: FileSystem.path(layout.additionalContent(generation: generation), path.text),
                beneath: layout.path)
            if let sealed { try copy.setPermissionsIfPossible(sealed.permissions & 0o777 | 0o600) }
        }
    }

    private func neitherFileNorFolder(_ path: String) -> QuireError {
        QuireError(
            .invalidValue,
            "“\(path)” cannot be additional content of “\(layout.path)”: it is neither a file nor a folder.",
            file: path)
    }

    private func hasFiles(_ folder: String) throws -> Bool {
        var hasFiles = false
        for (path, information) in try FileSystem.contentsOfTree(folder, beneath: layout.path) {
            switch information.kind {
            case .regular: hasFiles = true
            case .folder: break
            case .symbolicLink, .other: throw neitherFileNorFolder(path)
            }
        }
        return hasFiles
    }
}
