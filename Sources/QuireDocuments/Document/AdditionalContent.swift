public import Foundation
import Quire

/// The files that a document stores beside its objects: pictures, notes, settings.
///
/// Changes stay unsaved until the document is saved (data in memory, files on disk), and are then saved together with the changes of
/// the objects, or not at all. They cannot be undone. Paths are relative, with `/` between components; two paths must not differ
/// only in case.
///
/// New files get names in composed form (NFC); a path finds existing files in any form. A byte of a name that is not UTF-8 is listed as
/// a private-use character, U+10FE80 to U+10FEFF, by which the file is found.
@MainActor
public struct AdditionalContent {
    let document: ManagedDocument

    /// The paths of all files, sorted by their bytes, unsaved changes included.
    public var paths: [String] { document.openDocument?.contentNames.sorted.map(\.text) ?? [] }

    /// The bytes of a file, including unsaved changes, or `nil` if it does not exist.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the saved files are missing, or errors of reading.
    public func data(at path: String) throws -> Data? {
        let open = try document.opened()
        return try open.contentData(at: open.contentNames.name(for: path))
    }

    /// Adds or replaces a file.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the path cannot be used, or `readOnly`.
    public func write(_ data: Data, at path: String) throws {
        try checkWritable()
        let open = try document.opened()
        let name = open.contentNames.name(for: path)
        try Self.check(name, open.contentNames)
        open.changeContent(.data(data), at: name)
        document.scheduleAutosave()
    }

    /// Adds or replaces a file with a value as JSON, with sorted keys and dates in ISO 8601.
    ///
    /// ```swift
    /// try document.additionalContent.encode(settings, at: "settings.json")
    /// let settings = try document.additionalContent.decode(Settings.self, at: "settings.json") ?? Settings()
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the value cannot be encoded, or as ``write(_:at:)-(Data,_)``.
    public func encode(_ value: some Encodable, at path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        let data: Data
        do { data = try encoder.encode(value) } catch {
            throw QuireError(
                .invalidValue,
                "A value of type \(type(of: value)) cannot be encoded as JSON for “\(path)”: \(error).",
                file: path, underlying: error)
        }
        try write(data, at: path)
    }

    /// The value of a JSON file, including unsaved changes, or `nil` if it does not exist.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the file is not JSON of the type, or as ``data(at:)``.
    public func decode<Value: Decodable>(_ type: Value.Type, at path: String) throws -> Value? {
        guard let data = try data(at: path) else { return nil }
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        do { return try decoder.decode(type, from: data) } catch {
            throw QuireError(
                .invalidFormat,
                "The additional content “\(path)” of “\(document.path)” cannot be decoded as \(type): \(error).",
                file: path, underlying: error)
        }
    }

    /// Removes a file.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the file does not exist, or `readOnly`.
    public func remove(at path: String) throws {
        try checkWritable()
        let open = try document.opened()
        let name = open.contentNames.name(for: path)
        guard open.contentNames.contains(name) else {
            throw QuireError.noContent(path, in: document.path)
        }
        open.changeContent(.removal, at: name)
        document.scheduleAutosave()
    }

    /// Throws if a new file cannot have a path.
    nonisolated static func check(_ path: FileName, _ names: AdditionalContentNames) throws {
        if let problem = names.problem(with: path) {
            throw QuireError(
                .invalidValue, "“\(path)” cannot be additional content: it \(problem).",
                file: path.text)
        }
    }

    func checkWritable() throws {
        if document.isReadOnly { throw QuireError.readOnly(document.path) }
    }
}

// MARK: - Files of any size

// Files of any size: nothing here holds more of one in memory than a piece.

extension AdditionalContent {
    // MARK: Reading

    /// Whether a file exists, including unsaved changes.
    public func contains(_ path: String) -> Bool {
        guard let names = document.openDocument?.contentNames else { return false }
        return names.contains(names.name(for: path))
    }

    /// The paths of the files in a folder and the folders in it, sorted by their bytes, unsaved changes included.
    public func paths(inFolder folder: String) -> [String] {
        paths.filter { FileName.isPath($0, inFolder: folder) }
    }

    /// A file to read from, at its start, including unsaved changes; `nil` if it does not exist.
    ///
    /// Its bytes do not change, even if the file is replaced or removed meanwhile.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the saved files are missing, or errors of opening it.
    public func fileHandle(forReading path: String) throws -> FileHandle? {
        let open = try document.opened()
        return try open.contentFile(at: open.contentNames.name(for: path))
    }

    /// The location of a file's bytes, including unsaved changes; `nil` if it does not exist, if it is unsaved data in memory, or
    /// if the document is protected, so that the bytes are encrypted.
    ///
    /// For APIs that require a path. Only read the file, and only until the next save that changes additional content; use
    /// ``fileHandle(forReading:)`` for longer reads.
    public func url(for path: String) throws -> URL? {
        let open = try document.opened()
        return try open.contentPath(at: open.contentNames.name(for: path))
            .map { URL(fileURLWithPath: $0, isDirectory: false) }
    }

    // MARK: Changing

    /// Adds or replaces a file with a copy of a file on disk. The execute permission is kept; dates are not.
    ///
    /// The bytes are copied and on disk when this returns; they become part of the document with the next save.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `unsupported` if it is not a file, `invalidValue` if the path cannot be used,
    ///   `readOnly`, `outOfSpace`, or errors of reading and writing. Then nothing has changed.
    public func write(contentsOf file: String, at path: String) async throws {
        let path = try nameToWrite(at: path)
        let package = try document.opened().package
        let source = FileSystem.absolute(file)
        let spooled = try await FileQueue.shared.run {
            try SpooledFile(copying: source, to: package)
        }
        try put([path: spooled])
    }

    /// Adds or replaces a file with a copy of the file at a URL; see ``write(contentsOf:at:)-(String,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or the errors of that method.
    public func write(contentsOf file: URL, at path: String) async throws {
        try await write(contentsOf: FileSystem.path(of: file), at: path)
    }

    /// Adds or replaces a file with the bytes of an asynchronous sequence.
    ///
    /// The bytes are on disk when this returns; they become part of the document with the next save.
    ///
    /// - Throws: Errors of the sequence, or as ``write(contentsOf:at:)-(String,_)``. Then nothing has changed.
    public func write<Pieces: AsyncSequence>(_ pieces: Pieces, at path: String) async throws
    where Pieces.Element == Data {
        let path = try nameToWrite(at: path)
        let package = try document.opened().package
        let writer = try await FileQueue.shared.run { try SpoolWriter(in: package) }
        for try await piece in pieces {
            try await FileQueue.shared.run { try writer.write(piece) }
        }
        try put([path: try await FileQueue.shared.run { try writer.finish() }])
    }

    /// Adds copies of all files in a folder and its subfolders, replacing files with the same paths. Other files are kept.
    ///
    /// - Parameters:
    ///   - folder: The folder on disk.
    ///   - path: The destination folder; empty for none.
    /// - Returns: The paths of the files.
    /// - Throws: As ``write(contentsOf:at:)-(String,_)``; with code `unsupported` if the folder contains anything but files
    ///   and folders. Then nothing has changed.
    @discardableResult
    public func write(contentsOfFolder folder: String, at path: String) async throws -> [String] {
        try checkWritable()
        let package = try document.opened().package
        let source = FileSystem.absolute(folder)
        let files = try await FileQueue.shared.run {
            try AdditionalContentFiles.files(inFolder: source, at: path)
        }
        var names = try document.opened().contentNames
        let targets = try files.map { file in
            let name = names.name(for: file.path)
            try Self.check(name, names)
            names.insert(name)
            return (source: file.source, path: name)
        }
        let spooled = try await FileQueue.shared.run {
            var spooled: [FileName: SpooledFile] = [:]
            for file in targets {
                spooled[file.path] = try SpooledFile(copying: file.source, to: package)
            }
            return spooled
        }
        try put(spooled)
        return targets.map(\.path.text)
    }

    /// Adds copies of all files in the folder at a URL and its subfolders; see ``write(contentsOfFolder:at:)-(String,_)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or the errors of that method.
    @discardableResult
    public func write(contentsOfFolder folder: URL, at path: String) async throws -> [String] {
        try await write(contentsOfFolder: FileSystem.path(of: folder), at: path)
    }

    /// Removes all files in a folder and its subfolders.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if there are none, or `readOnly`.
    public func remove(folder: String) throws {
        let paths = paths(inFolder: folder)
        if paths.isEmpty {
            try checkWritable()
            throw QuireError(
                .notFound, "“\(document.path)” has no additional content in “\(folder)”.",
                file: folder)
        }
        for path in paths { try remove(at: path) }
    }

    // MARK: Parts

    private func nameToWrite(at path: String) throws -> FileName {
        try checkWritable()
        let names = try document.opened().contentNames
        let name = names.name(for: path)
        try Self.check(name, names)
        return name
    }

    /// Adds files to the next save. Names are checked again, because they may have been taken meanwhile.
    private func put(_ files: [FileName: SpooledFile]) throws {
        guard let open = document.openDocument else {
            throw QuireError(
                .invalidState,
                "“\(document.path)” was closed while additional content was being written.",
                file: document.path)
        }
        var names = open.contentNames
        for path in files.keys.sorted() {
            try Self.check(path, names)
            names.insert(path)
        }
        for (path, file) in files { open.changeContent(.file(file), at: path) }
        document.scheduleAutosave()
    }
}
