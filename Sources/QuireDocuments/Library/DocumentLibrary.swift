import Foundation
import Quire

/// The documents in a folder: listed without opening them, followed as they change, made, renamed, duplicated, moved and
/// put into the trash.
///
/// ```swift
/// let library = DocumentLibrary(folder: "/home/ada/Documents")
/// for entry in try await library.entries() { print(entry.title, entry.modified ?? .distantPast) }
/// let path = try await library.create(named: "Books", from: .named("Library"))
/// try await library.rename(path, to: "Old books")
/// for await change in library.changes() { … }
/// ```
///
/// What it promises
/// ================
///
/// - A document is a folder with `StoreContent/persistentStore` in it, or one whose name ends in one of ``extensions``.
///   What cannot be opened is listed with its error. Names that begin with a full stop are passed over.
/// - Nothing is opened to be listed, and nothing waits on the caller's queue: disks are asked on queues of their own.
/// - Nothing is ever replaced: a name that is taken is an error, or, for a new document, gets a number: “Books 2”.
/// - A document that another process has open for writing is not renamed, moved or put into the trash. One that is open in
///   this process is renamed and moved by coordination: it is saved, and goes on under its new name.
///
/// It is a value that knows a folder; any number may be made of the same one.
public struct DocumentLibrary: Sendable, Hashable {
    /// The folder.
    public let folder: String
    /// Whether documents in folders below it are the library's as well.
    public let isRecursive: Bool
    /// How names of documents end, without the full stop. The first one is that of new documents.
    public let extensions: [String]

    /// The library of a folder, which should exist.
    public init(folder: String, isRecursive: Bool = false, extensions: [String] = ["quire"]) {
        self.folder = FileSystem.absolute(folder)
        self.isRecursive = isRecursive
        self.extensions = extensions.isEmpty ? ["quire"] : extensions
    }

    /// The documents, sorted by their paths' bytes.
    ///
    /// - Complexity: O(*n*) in the documents' files; a few calls of the system for each document.
    /// - Throws: ``QuireError`` with code `notFound` if there is no such folder, or what reading it throws. What is wrong
    ///   with single documents is in their entries.
    public func entries() async throws -> [Entry] {
        try await FileQueue.copies.run {
            try packages().paths.map { Entry(lookingAt: $0) }
        }
    }

    /// One document.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if there is nothing at the path.
    public func entry(at path: String) async throws -> Entry {
        try await FileQueue.copies.run {
            let path = FileSystem.absolute(path)
            guard FileSystem.exists(path) else {
                throw FileSystem.failure("open", path, errno: ENOENT)
            }
            return Entry(lookingAt: path)
        }
    }

    /// The name that a package's path shows.
    static func name(of path: String) -> String {
        (FileSystem.name(of: path) as NSString).deletingPathExtension
    }

    /// The packages, and all folders that were looked into.
    func packages() throws -> (paths: [String], folders: [String]) {
        var paths: [String] = []
        var folders: [String] = []
        func visit(_ folder: String) throws {
            folders.append(folder)
            for name in try FileSystem.names(in: folder) where !name.hasPrefix(".") {
                let path = FileSystem.path(folder, name)
                let found = try? FileSystem.informationWithoutFollowing(at: path)
                guard let found, found.kind == .folder else { continue }
                if isPackage(path) {
                    paths.append(path)
                } else if isRecursive {
                    // One that may not be read, or went meanwhile, does not hide the others.
                    try? visit(path)
                }
            }
        }
        try visit(folder)
        return (paths.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }, folders)
    }

    func isPackage(_ path: String) -> Bool {
        extensions.contains((path as NSString).pathExtension)
            || DocumentPackageLayout(path: path).isPackage
    }

    /// A path for a name that is free at the moment: the name itself, or with a number.
    func freePath(named name: String, in folder: String, extension suffix: String?) throws -> String
    {
        try Self.checkName(name)
        let end = (suffix ?? extensions[0]).isEmpty ? "" : "." + (suffix ?? extensions[0])
        for number in 1..<10_000 {
            let numbered = number == 1 ? name : "\(name) \(number)"
            let path = FileSystem.path(folder, numbered + end)
            if !FileSystem.exists(path) { return path }
        }
        throw FileSystem.failure("create", FileSystem.path(folder, name + end), errno: EEXIST)
    }

    static func checkName(_ name: String) throws {
        if let problem = PortableNames.problem(with: name)
            ?? (name.contains("/") ? "has a slash" : nil)
            ?? (name.hasPrefix(".") ? "begins with a full stop" : nil)
        {
            throw QuireError(
                .invalidValue, "“\(name)” cannot be the name of a document: it \(problem).",
                subject: .init(file: name))
        }
    }
}
