import Foundation
import Quire
import Synchronization

/// New bytes for a file of additional content that are on disk already, in the package, under a temporary name. They go
/// when nobody needs them any more: a save gives them a second name.
///
/// Files are held open, unless there are very many, so that their bytes survive if others remove the package.
final class SpooledFile: Sendable {
    /// A name that no other file has, also in the package's drafts.
    let id: String
    /// The file, for when it has no name any more; `nil` if too many are open.
    private let file: OpenFile?
    private static let heldCount = Atomic(0)
    private static let greatestHeldCount = 128
    /// The package folder, which may be moved.
    private let folder: OpenFile?
    private let name: String
    private let firstPath: String

    private init(_ path: String, id: String = UUID().uuidString, in package: DocumentPackage) {
        folder = package.folder
        name = FileSystem.name(of: path)
        firstPath = path
        self.id = id
        let count = Self.heldCount.add(1, ordering: .relaxed).newValue
        file = count <= Self.greatestHeldCount ? try? OpenFile.open(path, for: .reading) : nil
    }

    deinit {
        Self.heldCount.subtract(1, ordering: .relaxed)
        if let place { _ = try? FileSystem.removeFileIfPresent(place) }
    }

    /// Where its name is, wherever the package was moved to; `nil` if it was removed.
    private var place: String? {
        if FileSystem.exists(firstPath) { return firstPath }
        guard let folder else { return nil }
        let moved = FileSystem.path("/proc/self/fd/\(folder.descriptor)", name)
        return FileSystem.exists(moved) ? moved : nil
    }

    /// Where it can be read.
    var path: String { place ?? file.map { "/proc/self/fd/\($0.descriptor)" } ?? firstPath }

    /// The number of bytes; 0 if the file is gone.
    var size: Int64 { ((try? FileSystem.information(at: path)) ?? nil)?.size ?? 0 }

    /// A free name for new bytes. Not among the generations, where saves remove what has a temporary name.
    private static func temporaryName(in package: DocumentPackage) -> String {
        FileSystem.temporarySibling(of: package.layout.additionalContent, for: "spool")
    }

    /// Copies a file, durably, sharing its blocks if the file system can. Whether it may be executed is kept.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `unsupported` if it is no file, `outOfSpace`, or what reading and
    ///   writing throw. Then nothing is left.
    convenience init(copying path: String, to package: DocumentPackage) throws {
        let temporary = Self.temporaryName(in: package)
        try FileSystem.copyFile(path, to: temporary)
        do {
            let file = try OpenFile.open(temporary, for: .reading)
            let isExecutable = try file.information().permissions & 0o100 != 0
            try file.setPermissions(isExecutable ? 0o755 : 0o644)
            try file.synchronize()
            self.init(temporary, in: package)
        } catch {
            _ = try? FileSystem.removeFileIfPresent(temporary)
            throw error
        }
    }

    /// Gives a file that is in the package already a second name.
    convenience init(linking path: String, id: String, in package: DocumentPackage) throws {
        let temporary = Self.temporaryName(in: package)
        let root = package.layout.path
        try FileSystem.linkOrCopy(path, beneath: root, to: temporary, within: root)
        self.init(temporary, id: id, in: package)
    }

    /// Writes what a body gives, durably.
    ///
    /// - Throws: What the body throws, or writing. Then nothing is left.
    convenience init(
        in package: DocumentPackage, writing body: (OpenFile) throws -> Void
    ) throws {
        let temporary = Self.temporaryName(in: package)
        let file = try OpenFile.open(temporary, for: .creating)
        do {
            try body(file)
            try file.synchronize()
            self.init(temporary, in: package)
        } catch {
            _ = try? FileSystem.removeFileIfPresent(temporary)
            throw error
        }
    }
}

/// Takes bytes that come bit by bit.
final class SpoolWriter: Sendable {
    private let file: OpenFile
    private let spooled: SpooledFile

    /// Begins an empty file, which goes if it is not finished.
    init(in package: DocumentPackage) throws {
        spooled = try SpooledFile(in: package) { _ in }
        file = try OpenFile.open(spooled.path, for: .updating)
    }

    func write(_ data: Data) throws { try file.write(data) }

    /// Makes what was written durable.
    func finish() throws -> SpooledFile {
        try file.synchronize()
        return spooled
    }
}
