import Foundation
import Quire

/// A change of a file of additional content.
enum AdditionalContentChange: Sendable {
    /// New bytes as data.
    case data(Data)
    /// New bytes in a spooled file.
    case file(SpooledFile)
    /// Removal.
    case removal

    var isRemoval: Bool {
        if case .removal = self { return true }
        return false
    }

    /// The new bytes; `nil` for a removal.
    func data() throws -> Data? {
        switch self {
        case .data(let data): data
        case .file(let file): try file.open().readAll()
        case .removal: nil
        }
    }

    /// Creates the file, which must not exist, durably except for its name.
    ///
    /// - Parameters:
    ///   - root: The package.
    ///   - classKey: The class key of the package's files, spooled ones included; `nil` for unsealed files.
    func write(to target: String, beneath root: String, sealing classKey: ClassKey?) throws {
        switch self {
        case .data(let data):
            let file = try OpenFile.open(target, beneath: root, for: .creating)
            let writer = try ContentFileWriter(file, sealing: classKey)
            try data.withUnsafeBytes { try writer.write($0) }
            try writer.finish()
        case .file(let file):
            if try file.linkOrCopy(to: target, within: root) {
                try OpenFile.open(target, beneath: root, for: .reading).synchronize()
            }
        case .removal: break
        }
    }
}

/// Files to add, replace or remove in a save. It is a value, so that a copy is a snapshot.
struct AdditionalContentChanges: Sendable {
    /// The changes of files, by their paths.
    var files: [FileName: AdditionalContentChange] = [:]
    /// Writes all files to an empty folder, as a subclass does it, before ``files`` are added and removed. It also gets the folder of the
    /// last save.
    var rewriting: Rewriting?

    typealias Rewriting = @Sendable (_ folder: String, _ original: String?) throws -> Void

    var isEmpty: Bool { files.isEmpty && rewriting == nil }

    /// The changes with all bytes, for a draft, and the files that are too large for one, both by ``FileName/key``, and the paths of
    /// unreadable files.
    func forDraft() -> (
        files: [String: Data?], large: [String: SpooledFile], omitted: [String]
    ) {
        var (content, large, omitted): ([String: Data?], [String: SpooledFile], [String]) =
            ([:], [:], [])
        for (path, change) in files {
            if case .file(let file) = change, file.size > Self.maximumSizeInDraft {
                large[path.key] = file
            } else if let data = try? change.data() {
                content.updateValue(data, forKey: path.key)
            } else if change.isRemoval {
                content.updateValue(nil, forKey: path.key)
            } else {
                omitted.append(path.text)
            }
        }
        return (content, large, omitted.sorted())
    }

    /// A draft is in the store, and in memory while it is written.
    private static let maximumSizeInDraft: Int64 = 64 << 20

    /// These changes, applied after other ones.
    func following(_ earlier: AdditionalContentChanges) -> AdditionalContentChanges {
        AdditionalContentChanges(files: earlier.files.merging(files) { _, new in new })
    }
}

// MARK: - Names

/// The paths of a package's additional content, indexed to find collisions.
///
/// Existing files may have any names; only new ones have to be portable. Names that differ in Unicode normalization are different
/// files.
struct AdditionalContentNames {
    /// Files by their folded path.
    private var files: [String: Set<FileName>] = [:]
    /// Folders by their folded path, with the number of files below them.
    private var folders: [String: (path: String, count: Int)] = [:]

    init(_ paths: some Sequence<FileName>) {
        for path in paths { insert(path) }
    }

    /// All paths, sorted by their bytes.
    var sorted: [FileName] { files.values.flatMap(\.self).sorted() }

    func contains(_ path: FileName) -> Bool {
        files[PortableNames.folded(path.text)]?.contains(path) ?? false
    }

    /// The file for a path given by a program: the one with these bytes, or else with the composed form, or else a canonically
    /// equivalent one. A new file gets the composed form.
    func name(for path: String) -> FileName {
        let name = FileName(path)
        // Escaped bytes are matched exactly.
        if contains(name) || FileName.hasEscapes(path) { return name }
        let composed = name.composed
        if contains(composed) { return composed }
        return files[PortableNames.folded(name.text)]?.filter { $0.text == name.text }.min()
            ?? composed
    }

    /// The reason why a new path cannot be used, to continue “… cannot be used: it …”.
    func problem(with path: FileName) -> String? {
        if let problem = PortableNames.problem(with: path.text) { return problem }
        let folded = PortableNames.folded(path.text)
        // Equal strings differ in Unicode normalization at most.
        if let file = files[folded]?.sorted().first(where: { $0.text != path.text }) {
            return "differs from “\(file)” only in case"
        }
        if let folder = folders[folded] { return "is already the folder “\(folder.path)”" }
        for parent in Self.parents(of: path) {
            let folded = PortableNames.folded(parent)
            if let file = files[folded]?.min() { return "is below the file “\(file)”" }
            if let folder = folders[folded], folder.path != parent {
                return "differs from “\(folder.path)” only in case"
            }
        }
        return nil
    }

    mutating func insert(_ path: FileName) {
        guard files[PortableNames.folded(path.text), default: []].insert(path).inserted else {
            return
        }
        for parent in Self.parents(of: path) {
            folders[PortableNames.folded(parent), default: (parent, 0)].count += 1
        }
    }

    mutating func remove(_ path: FileName) {
        let folded = PortableNames.folded(path.text)
        guard files[folded]?.remove(path) != nil else { return }
        if files[folded]?.isEmpty == true { files[folded] = nil }
        for parent in Self.parents(of: path) {
            let folded = PortableNames.folded(parent)
            folders[folded]?.count -= 1
            if folders[folded]?.count == 0 { folders[folded] = nil }
        }
    }

    private static func parents(of path: FileName) -> [String] {
        let parts = FileSystem.components(of: path.text)
        return (1..<max(parts.count, 1)).map { parts.prefix($0).joined(separator: "/") }
    }
}

// MARK: - Files of a folder

/// Folders on disk whose files are to become additional content.
enum AdditionalContentFiles {
    /// The files in a folder and the folders in it, with the paths that they get, as ``AdditionalContentNames/name(for:)``
    /// takes them.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, or `unsupported` if there is anything but files and folders.
    static func files(
        inFolder folder: String, at path: String
    ) throws -> [(source: String, path: String)] {
        let prefix = path.isEmpty ? "" : path + "/"
        var sources: [String] = []
        var names: [FileName] = []
        for (name, information) in try FileSystem.contentsOfTree(folder) {
            let source = FileSystem.path(folder, name)
            switch information.kind {
            case .folder: continue
            case .regular:
                sources.append(source)
                names.append(FileName(prefix + name))
            case .symbolicLink, .other:
                throw QuireError(
                    .unsupported,
                    "“\(source)” cannot be additional content: it is neither a file nor a folder.",
                    file: source)
            }
        }
        return Array(zip(sources, paths(for: names)))
    }

    /// The paths of new files, in composed form, except that names which differ only in Unicode normalization are kept.
    static func paths(for names: [FileName]) -> [String] {
        var forms: [FileName: Set<FileName>] = [:]
        for name in names {
            for part in parts(of: name) { forms[part.path.composed, default: []].insert(part.path) }
        }
        return names.map { name in
            var isUnique = true
            let path = parts(of: name).map { path, name in
                if forms[path.composed]?.count == 1 { return FileName(name).composed.text }
                isUnique = false
                return name
            }.joined(separator: "/")
            // An escaped name matches no other form.
            return isUnique ? path : FileName(path).escaped
        }
    }

    /// The components of a path, each with the path to it.
    private static func parts(of name: FileName) -> [(path: FileName, name: String)] {
        var path = ""
        return name.text.utf8.split(separator: UInt8(ascii: "/")).map {
            let component = String(Substring($0))
            path += path.isEmpty ? component : "/" + component
            return (FileName(path), component)
        }
    }
}

extension OpenFile {
    /// A file without a name that contains the bytes, at its start.
    static func temporary(holding data: Data) throws -> OpenFile {
        let file = try OpenFile.inMemory(named: "data")
        try file.write(data)
        return try file.reopened()
    }

    /// A separate handle for the file, closed when it is deallocated.
    func fileHandle() throws -> FileHandle {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        if copy < 0 { throw FileSystem.failure("open", path) }
        return FileHandle(fileDescriptor: copy, closeOnDealloc: true)
    }
}
