import Foundation
import Quire

/// The result of extracting an archive.
public struct ExtractedArchive: Sendable, Hashable {
    /// Whether the archive's content matches its manifest; `false` if it has none, because another program created it.
    public var isVerified = false
    /// Whether the store was checked. It was not if the document is protected and locked.
    public var isStoreChecked = false
    /// The paths of omitted files, relative to the document: they are not part of a document.
    public var omittedPaths: [String] = []
}

/// Extracts the document in an archive, or in a folder, into a new package folder.
///
/// The source is untrusted: only files and folders are accepted, only names that ``PortableNames`` and `objection` accept, nothing
/// beyond the limits, and exactly what the manifest lists. Everything is written to a temporary sibling of the destination, which
/// is removed if anything is wrong.
///
/// A source without a manifest was made by another program. It must contain exactly one document, at any depth; files for which
/// `isPart` is false are left out.
struct ArchiveExtraction {
    /// The archive, or a folder.
    var archive: String
    /// The path to read from, if errors name another one.
    var location: String?
    /// The folder to create.
    var destination: String
    /// The limits of the content.
    var limits = ArchiveLimits()
    /// Counts the bytes of the archive, and is checked for cancellation.
    var progress: Progress?
    /// Whether ``progress`` is updated, or only checked for cancellation.
    var countsProgress = true
    /// The reason to reject an otherwise valid path that the manifest lists, which continues “… it …”, or `nil`.
    var objection: (_ path: String, _ isFolder: Bool) -> String? = { _, _ in nil }
    /// Whether a path is part of a document, if there is no manifest.
    var isPart: (_ path: String, _ isFolder: Bool) throws -> Bool = { _, _ in true }
    /// Checks the extracted folder before it gets its final name.
    var verify: (_ folder: String) throws -> Void = { _ in }

    private static let pieceSize = 262_144

    /// Extracts the archive.
    @discardableResult
    func run() throws -> ExtractedArchive {
        if FileSystem.exists(destination) {
            throw FileSystem.failure("create", destination, errno: EEXIST)
        }
        let source = try source(counting: countsProgress ? progress : nil)
        let temporary = try TemporarySibling.makeFolder(beside: destination)
        defer { temporary.remove() }
        return try temporary.building {
            let result = try withUTF8Locale {
                let contents = try survey(source.reader())
                if source.file == nil { try checkIsClosed(contents.root) }
                return try extract(contents, from: source.reader(), into: temporary.path).result
            }
            try verify(temporary.path)
            try temporary.setFinalPermissions(limitedBy: source.permissions)
            try FileSystem.synchronizeTree(temporary.path)
            try temporary.publish()
            return result
        }
    }

    /// An archive whose files are those that its manifest lists.
    struct Checked {
        /// The manifest; `nil` if another program has made the archive.
        var manifest: ArchiveManifest?
        /// The digests of the manifest, one of which a signature signs.
        var message: ArchiveSignature.Message?
        /// The armored signature, which is not checked.
        var signature: Data?
        /// A file or folder that is neither in the manifest nor needed beside it.
        var unlistedPath: String?
    }

    /// Reads the archive as ``run()`` does, but writes nothing and does not call ``verify``.
    ///
    /// - Throws: What ``run()`` would throw.
    @discardableResult
    func check() throws -> Checked {
        let source = try source(counting: countsProgress ? progress : nil)
        return try withUTF8Locale {
            let contents = try survey(source.reader())
            let extracted = try extract(contents, from: source.reader(), into: nil)
            return Checked(
                manifest: contents.manifest, message: contents.message,
                signature: extracted.signature, unlistedPath: extracted.unlistedPath)
        }
    }

    /// The manifest of an archive, without extracting it.
    static func manifest(of archive: String) throws -> ArchiveManifest {
        let extraction = ArchiveExtraction(archive: archive, destination: "")
        return try withUTF8Locale {
            let contents = try extraction.survey(extraction.source().reader())
            guard let manifest = contents.manifest else {
                throw extraction.invalid("has no \(ArchiveManifest.path)")
            }
            return manifest
        }
    }

    // MARK: Sources

    private func source(counting progress: Progress? = nil) throws -> Source {
        try Source(location ?? archive, reportedAs: archive, counting: progress)
    }

    /// The file of an archive, or a folder.
    private struct Source {
        let path: String
        /// `nil` for a folder.
        let file: OpenFile?
        let permissions: FileInformation

        init(_ path: String, reportedAs name: String, counting progress: Progress?) throws {
            self.path = path
            let opened = try OpenFile.open(path, for: .reading, reportedAs: name)
            permissions = try opened.information()
            switch permissions.kind {
            case .folder: file = nil
            case .regular: file = opened
            default:
                throw QuireError(
                    .invalidFormat, "“\(name)” is neither an archive nor a folder.",
                    file: name)
            }
            // A folder's size is found when it is read.
            progress?.totalUnitCount = file == nil ? -1 : permissions.size
            progress?.completedUnitCount = 0
        }

        /// A reader that begins with the first entry. Only one can be used at a time.
        func reader() throws -> any ArchiveEntryReader {
            guard let file else { return try FolderReader(path) }
            return try ArchiveReader(file: file.reopened())
        }
    }

    // MARK: Survey

    /// The location of the document in an archive, and its manifest.
    private struct Contents {
        /// The path of the document, with a slash at the end; empty if it is the whole archive.
        var root: String
        var manifest: ArchiveManifest?
        /// The digests of the manifest's bytes.
        var message: ArchiveSignature.Message?
        /// The files of the manifest by their paths.
        var listed: [String: ArchiveManifest.Entry] = [:]

        /// The path in the document of an entry; `nil` if the entry is not below it, or incidental.
        func path(of entry: ArchiveEntry) -> String? {
            let bytes = entry.path.utf8
            guard bytes.starts(with: root.utf8), bytes.count > root.utf8.count else { return nil }
            let path = String(Substring(bytes.dropFirst(root.utf8.count)))
            return listed[path] == nil && ArchiveName.isIncidental(path) ? nil : path
        }

        /// Whether an entry is the document's folder, or one above it.
        func isAbove(_ entry: ArchiveEntry) -> Bool {
            entry.kind == .folder
                && (entry.path.isEmpty || root.utf8.starts(with: (entry.path + "/").utf8))
        }
    }

    /// Finds the document.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` unless it contains exactly one.
    private func survey(_ reader: any ArchiveEntryReader) throws -> Contents {
        var roots: Set<String> = []
        // Of the outermost document: one in its additional content may have its own.
        var manifest: (root: String, data: Data)?
        var count = 0
        while let entry = try reader.next() {
            try checkCancelled()
            count += 1
            // The manifest, and folders above the document, are not counted.
            if count > limits.entries + 100 { throw tooManyEntries }
            guard entry.kind == .file, !entry.path.contains("__MACOSX/") else { continue }
            for part in [ArchiveManifest.path, DocumentPackageLayout.storePath]
            where entry.path == part || entry.path.hasSuffix("/" + part) {
                let root = String(entry.path.dropLast(part.count))
                roots.insert(root)
                guard part == ArchiveManifest.path else { continue }
                if manifest?.root == root { throw invalid("has two manifests") }
                if let manifest, manifest.root.utf8.count < root.utf8.count { continue }
                guard let data = try reader.readData(limit: ArchiveManifest.largestSize) else {
                    throw invalid("has a manifest larger than \(ArchiveManifest.largestSize) bytes")
                }
                manifest = (root, data)
            }
        }
        // A document may be part of another's additional content.
        let outermost = roots.filter { root in
            !roots.contains { $0 != root && root.hasPrefix($0) }
        }
        guard let root = outermost.first else {
            throw invalid("contains neither \(DocumentPackageLayout.storePath) nor a manifest")
        }
        if outermost.count > 1 {
            let names = outermost.map { "“\($0.dropLast())”" }.sorted().prefix(5)
            throw QuireError(
                .invalidFormat,
                "“\(archive)” contains \(outermost.count) documents: \(names.joined(separator: ", ")); unpack it, and extract one of them.",
                file: archive)
        }
        guard let manifest, manifest.root == root else { return Contents(root: root) }
        let decoded = try ArchiveManifest.decoded(manifest.data, archive: archive)
        return Contents(
            root: root, manifest: decoded, message: .init(manifest.data),
            listed: try decoded.files(archive: archive))
    }

    /// Throws if the document in a folder is open for writing: its files would be of different saves.
    private func checkIsClosed(_ root: String) throws {
        let layout = DocumentPackageLayout(path: FileSystem.path(archive, root))
        guard let owner = try DocumentLock.owner(of: layout) else { return }
        throw QuireError(
            .locked,
            "“\(layout.path)” is open for writing\(owner.phrase); close it, or copy it by saving it as another document.",
            file: layout.path)
    }

    // MARK: Extraction

    /// The results of reading an archive.
    private struct Extracted {
        var result: ExtractedArchive
        /// See ``Checked``.
        var signature: Data?
        var unlistedPath: String?
    }

    /// - Parameter root: The folder to write to; `nil` to write nothing.
    private func extract(
        _ contents: Contents, from reader: any ArchiveEntryReader, into root: String?
    ) throws -> Extracted {
        var extracted = Extracted(result: ExtractedArchive(isVerified: contents.manifest != nil))
        let folders = Set(contents.manifest?.folders ?? [])
        var names = PortableNames()
        var missing = contents.listed
        var content = Content(listed: contents.listed)
        var count = 0
        for folder in contents.manifest?.folders ?? [] {
            try checkName(folder, isFolder: true, &names, in: contents)
            if let root { try makeFolder(folder, in: root) }
        }
        while let entry = try reader.next() {
            try checkCancelled()
            try checkStaysInside(entry)
            guard let path = contents.path(of: entry) else {
                if !contents.isAbove(entry) { extracted.unlistedPath = entry.path }
                continue
            }
            if path == ArchiveSignature.path, entry.kind == .file {
                guard extracted.signature == nil else { throw damaged("it has two signatures") }
                extracted.signature = try readSignature(contents, from: reader)
                continue
            }
            if contents.manifest != nil {
                if path == ArchiveManifest.path { continue }
                if path == ArchiveManifest.mediaTypePath {
                    if try !isMediaType(reader) { extracted.unlistedPath = path }
                    continue
                }
            }
            if case .other(let what) = entry.kind {
                throw invalid("contains “\(entry.path)”, which is \(what)")
            }
            let isFolder = entry.kind == .folder
            count += 1
            if count > limits.entries { throw tooManyEntries }
            if contents.manifest == nil, try !isPart(path, isFolder) {
                if !isFolder { extracted.result.omittedPaths.append(path) }
                continue
            }
            if isFolder {
                // With a manifest, those that it lists are there already.
                if contents.manifest != nil {
                    if !folders.contains(path), path != ArchiveManifest.folder {
                        extracted.unlistedPath = path
                    }
                    continue
                }
                try checkName(path, isFolder: true, &names, in: contents)
                if let root { try makeFolder(path, in: root) }
                continue
            }
            try checkName(path, isFolder: false, &names, in: contents)
            let found = try extractFile(path, from: reader, into: root, &content)
            guard contents.manifest != nil else { continue }
            guard let expected = missing.removeValue(forKey: path) else {
                throw damaged("its manifest does not list “\(path)”")
            }
            guard expected == found else {
                throw damaged("“\(path)” does not match the manifest")
            }
        }
        if let path = missing.keys.min() { throw damaged("“\(path)” is missing") }
        if countsProgress, let progress, progress.totalUnitCount >= 0 {
            progress.completedUnitCount = progress.totalUnitCount
        }
        return extracted
    }

    private func readSignature(
        _ contents: Contents, from reader: any ArchiveEntryReader
    ) throws -> Data {
        guard contents.manifest != nil else {
            throw damaged("it has the signature of a manifest, but no manifest")
        }
        guard let signature = try reader.readData(limit: ArchiveSignature.maximumSize) else {
            throw invalid("has a signature larger than \(ArchiveSignature.maximumSize) bytes")
        }
        return signature
    }

    private func isMediaType(_ reader: any ArchiveEntryReader) throws -> Bool {
        let expected = Data(ArchiveFormat.mediaType.utf8)
        return try reader.readData(limit: expected.count) == expected
    }

    /// Throws if a name leads out of the destination, even if the entry would not be extracted: such an archive is malicious.
    private func checkStaysInside(_ entry: ArchiveEntry) throws {
        guard entry.path.hasPrefix("/") || FileSystem.components(of: entry.path).contains("..")
        else { return }
        throw unusable(
            entry.path, PortableNames.problem(with: entry.path) ?? "is outside the archive")
    }

    private func checkName(
        _ path: String, isFolder: Bool, _ names: inout PortableNames, in contents: Contents
    ) throws {
        let problem =
            names.add(path, isFolder: isFolder)
            ?? (contents.manifest == nil ? nil : objection(path, isFolder))
        if let problem { throw unusable(contents.root + path, problem) }
    }

    private func makeFolder(_ path: String, in root: String) throws {
        try FileSystem.makeFolder(
            FileSystem.path(root, path), beneath: root, withIntermediates: true)
    }

    /// - Returns: The entry that a manifest must have for the file. It has a digest per MiB only if the manifest's has.
    private func extractFile(
        _ path: String, from reader: any ArchiveEntryReader, into root: String?,
        _ content: inout Content
    ) throws -> ArchiveManifest.Entry {
        if let root, path.contains("/") { try makeFolder(FileSystem.folder(of: path), in: root) }
        let file = try root.map {
            try OpenFile.open(FileSystem.path($0, path), beneath: $0, for: .creating)
        }
        var size: Int64 = 0
        let listed = content.listed[path]
        let digests = ArchiveFileDigests(hasParts: listed?.sha256PerMiB != nil)
        try withUnsafeTemporaryAllocation(byteCount: Self.pieceSize, alignment: 16) { buffer in
            while true {
                try checkCancelled()
                let count = try reader.read(into: buffer)
                if count == 0 { return }
                size += Int64(count)
                content.size += Int64(count)
                try checkLimits(path, size: size, content, read: reader.bytesRead)
                let piece = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                digests.update(piece)
                try file?.write(piece)
                if let progress, countsProgress {
                    let read = max(progress.completedUnitCount, reader.bytesRead)
                    let total = progress.totalUnitCount
                    progress.completedUnitCount = total < 0 ? read : min(read, total)
                }
            }
        }
        let (sha256, perMiB) = digests.finalize()
        return .init(path: path, size: size, sha256: sha256, sha256PerMiB: perMiB)
    }

    /// The content read from the archive so far.
    private struct Content {
        /// The number of bytes.
        var size: Int64 = 0
        /// The files that the manifest lists, by path.
        let listed: [String: ArchiveManifest.Entry]
    }

    private func checkLimits(
        _ path: String, size: Int64, _ content: Content, read: Int64
    ) throws {
        if size > limits.bytesPerEntry {
            throw invalid(
                "contains “\(path)”, which exceeds the limit of \(limits.bytesPerEntry) bytes")
        }
        if content.size > limits.bytes {
            throw invalid("exceeds the limit of \(limits.bytes) bytes of content")
        }
        if content.size > limits.bytesBeforeRatio, content.size / limits.ratio > read,
            size > content.listed[path]?.size ?? 0
        {
            throw invalid(
                "expands to more than \(limits.ratio) times its size, and “\(path)” is larger than its manifest states"
            )
        }
    }

    // MARK: Errors

    private func checkCancelled() throws {
        try progress?.checkCancelled(
            "The extraction of “\(archive)” was cancelled.", file: archive)
    }

    private var tooManyEntries: QuireError {
        invalid("exceeds the limit of \(limits.entries) entries")
    }

    private func unusable(_ path: String, _ problem: String) -> QuireError {
        invalid("contains “\(path)”, which cannot be used: it \(problem)")
    }

    private func invalid(_ what: String) -> QuireError {
        QuireError(
            .invalidFormat, "“\(archive)” is not a document archive: it \(what).",
            file: archive)
    }

    private func damaged(_ what: String) -> QuireError {
        QuireError(
            .invalidFormat, "“\(archive)” is damaged: \(what).", file: archive)
    }
}
