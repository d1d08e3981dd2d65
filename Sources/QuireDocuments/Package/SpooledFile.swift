import Foundation
import Quire
import Synchronization

/// New bytes for a file of additional content, already on disk in the package, under a temporary name. The name is removed when the
/// object is deallocated; a save gives the file a second name.
///
/// Files are kept open, unless there are very many, so that their bytes survive if another program removes the package.
final class SpooledFile: Sendable {
    /// A name that is unique, also in the package's drafts.
    let id: String
    /// The open file, in case its name is removed; `nil` if too many are open.
    private let file: OpenFile?
    private static let heldCount = Atomic(0)
    private static let maximumHeldCount = 128
    /// The package folder, which may be moved.
    private let folder: OpenFile?
    /// The class key of the package's files; `nil` for unsealed files.
    private let classKey: ClassKey?
    private let name: String
    private let firstRoot: String

    private init(_ path: String, id: String = UUID().uuidString, in package: DocumentPackage) {
        folder = package.folder
        classKey = package.store.protection?.classKey
        name = FileSystem.name(of: path)
        firstRoot = package.layout.path
        self.id = id
        let count = Self.heldCount.add(1, ordering: .relaxed).newValue
        file =
            count <= Self.maximumHeldCount
            ? try? OpenFile.open(path, beneath: firstRoot, for: .reading) : nil
    }

    deinit {
        Self.heldCount.subtract(1, ordering: .relaxed)
        if let place { _ = try? FileSystem.removeFileIfPresent(place.path, beneath: place.root) }
    }

    /// The path of its name, wherever the package was moved to; `nil` if it was removed or replaced.
    private var place: (path: String, root: String)? {
        let roots = [firstRoot, folder?.descriptorPath].compactMap(\.self)
        for root in roots {
            let path = FileSystem.path(root, name)
            guard let found = (try? FileSystem.information(at: path, beneath: root)) ?? nil,
                found.kind == .regular,
                file.map({ (try? $0.information().isSameFile(as: found)) == true }) ?? true
            else { continue }
            return (path, root)
        }
        return nil
    }

    /// The path, for programs that need one; the file may be sealed. Quire itself uses ``open()``.
    var path: String {
        place?.path ?? file?.descriptorPath
            ?? FileSystem.path(firstRoot, name)
    }

    /// Opens it, even if its name was removed.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, or `invalidFormat` if it was replaced.
    func open() throws -> ContentFile { try ContentFile(openAsIs(), unsealing: classKey) }

    /// Opens it as it is on disk.
    fileprivate func openAsIs(for purpose: OpenFile.Purpose = .reading) throws -> OpenFile {
        if let place { return try OpenFile.open(place.path, beneath: place.root, for: purpose) }
        if let file, purpose == .reading { return try file.reopened() }
        return try OpenFile.open(
            FileSystem.path(firstRoot, name), beneath: firstRoot, for: purpose)
    }

    /// Gives it a second name, or copies it if its name was removed, or the file system has no hard links.
    ///
    /// - Returns: Whether it was copied, and hence has bytes to synchronize.
    func linkOrCopy(to target: String, within root: String) throws -> Bool {
        if let place {
            return try FileSystem.linkOrCopy(
                place.path, beneath: place.root, to: target, within: root)
        }
        let file = try openAsIs()
        defer { file.close() }
        return try FileSystem.linkOrCopy(file.descriptorPath, to: target, within: root)
    }

    /// The number of bytes; 0 if the file does not exist.
    var size: Int64 {
        guard let information = try? (file ?? openAsIs()).information() else { return 0 }
        return ContentFile.count(of: information, sealed: classKey != nil)
    }

    /// An unused name for new bytes; not in the folder of the generations, where saves remove temporary files.
    private static func temporaryName(in package: DocumentPackage) -> String {
        FileSystem.temporarySibling(of: package.layout.additionalContent, for: "spool")
    }

    /// Creates a file with a temporary name. Nothing is left if that fails, and errors do not contain the name.
    private static func make(
        _ temporary: String, in package: DocumentPackage, _ body: (_ root: String) throws -> Void
    ) throws {
        let root = package.layout.path
        try FileSystem.removeOnFailure(temporary, beneath: root) {
            try FileSystem.building(package.layout.additionalContent, as: temporary) {
                try body(root)
            }
        }
    }

    /// Copies a file durably, sharing its blocks if the file system can. The execute permission is kept.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `unsupported` if it is not a file, `outOfSpace`, or errors of reading and
    ///   writing. Then nothing is left.
    convenience init(copying path: String, to package: DocumentPackage) throws {
        let temporary = Self.temporaryName(in: package)
        try Self.make(temporary, in: package) { root in
            if let classKey = package.store.protection?.classKey {
                try Self.seal(path, to: temporary, within: root, classKey)
                return
            }
            try FileSystem.copyFile(path, to: temporary, within: root)
            let file = try OpenFile.open(temporary, beneath: root, for: .reading)
            let isExecutable = try file.information().permissions & 0o100 != 0
            try file.setPermissions(isExecutable ? 0o755 : 0o644)
            try file.synchronize()
        }
        self.init(temporary, in: package)
    }

    /// Seals the bytes of a file on disk. The execute permission is kept.
    static func seal(
        _ path: String, to temporary: String, within root: String, _ classKey: ClassKey
    ) throws {
        let source = try OpenFile.open(path, for: .reading)
        defer { source.close() }
        let information = try source.information()
        try information.require(.regular, at: path)
        let file = try OpenFile.open(temporary, beneath: root, for: .creating)
        try file.setPermissionsIfPossible(information.permissions & 0o100 != 0 ? 0o755 : 0o644)
        let writer = try ContentFileWriter(file, sealing: classKey)
        try ContentFile(source, unsealing: nil).forEachBlock { try writer.write($0) }
        try writer.finish()
    }

    /// Gives an existing file of the package a second name.
    convenience init(linking path: String, id: String, in package: DocumentPackage) throws {
        let temporary = Self.temporaryName(in: package)
        try Self.make(temporary, in: package) { root in
            try FileSystem.linkOrCopy(path, beneath: root, to: temporary, within: root)
        }
        self.init(temporary, id: id, in: package)
    }

    /// Creates an empty file to be filled.
    fileprivate convenience init(beginningIn package: DocumentPackage) throws {
        let temporary = Self.temporaryName(in: package)
        try Self.make(temporary, in: package) { root in
            try OpenFile.open(temporary, beneath: root, for: .creating).close()
        }
        self.init(temporary, in: package)
    }

    /// Writes the bytes that a body provides, durably.
    ///
    /// - Throws: Errors of the body or of writing. Then nothing is left.
    convenience init(
        in package: DocumentPackage, writing body: (ContentFileWriter) throws -> Void
    ) throws {
        let temporary = Self.temporaryName(in: package)
        try Self.make(temporary, in: package) { root in
            let file = try OpenFile.open(temporary, beneath: root, for: .creating)
            let writer = try ContentFileWriter(
                file, sealing: package.store.protection?.classKey)
            try body(writer)
            try writer.finish()
        }
        self.init(temporary, in: package)
    }
}

/// Collects bytes piece by piece.
final class SpoolWriter: Sendable {
    private let writer: ContentFileWriter
    private let spooled: SpooledFile

    /// Begins an empty file, which is removed unless it is finished.
    init(in package: DocumentPackage) throws {
        spooled = try SpooledFile(beginningIn: package)
        writer = try ContentFileWriter(
            spooled.openAsIs(for: .updating), sealing: package.store.protection?.classKey)
    }

    func write(_ data: Data) throws { try data.withUnsafeBytes { try writer.write($0) } }

    /// Makes the written bytes durable.
    func finish() throws -> SpooledFile {
        try writer.finish()
        return spooled
    }
}
