import Foundation
import Quire

/// Defaults for options: of the user, `~/.config/quire/config`, and of the documents in a folder, `.quirerc` in that folder.
///
/// ```
/// # A comment.
/// format = csv
/// columns.Book = title,author.name
/// key-file = ~/keys/library.key
/// ```
///
/// Options of the command line come first, then the file beside the document, then the user's. `QUIRE_CONFIG` names another file
/// than the user's; if it is empty or `/dev/null`, no defaults are read at all. A file beside a document may
/// come from another person: it must be a regular file, and cannot name a key file.
struct Defaults: Equatable {
    /// The format of rows.
    private(set) var format: RowFormat?
    /// The path of the key file for documents that no other key is given for.
    private(set) var keyFile: String?
    /// The columns of entities, and the file that they come from.
    private var columns: [String: (text: String, file: String)] = [:]

    /// The name of the file beside documents.
    static let fileName = ".quirerc"
    /// The largest file, in bytes.
    static let maximumSize = 1 << 16

    static func == (first: Defaults, second: Defaults) -> Bool {
        first.format == second.format && first.keyFile == second.keyFile
            && first.columns.mapValues(\.text) == second.columns.mapValues(\.text)
    }

    /// The columns of an entity, and the name of their setting for errors.
    func columns(of entity: String) -> (text: String, name: String)? {
        columns[entity].map { ($0.text, "columns.\(entity) of “\($0.file)”") }
    }

    // MARK: - Files

    private static let known = Lock<Defaults?>(nil)

    /// The defaults of this process.
    ///
    /// - Throws: As ``read(_:allowsKeyFile:)``.
    static func current() throws -> Defaults {
        if let defaults = known.withLock({ $0 }) { return defaults }
        let defaults = try user() ?? Defaults()
        known.withLock { $0 = defaults }
        return defaults
    }

    /// Reads the file beside a document, for the rest of the process.
    ///
    /// - Throws: As ``read(_:allowsKeyFile:)``.
    static func read(besideDocument path: String) throws {
        guard !isOff() else { return }
        let folder = FileSystem.folder(of: FileSystem.absolute(path))
        let file = FileSystem.path(folder, fileName)
        guard FileSystem.exists(file, beneath: folder) else { return }
        var defaults = try current()
        try defaults.read(
            data(of: OpenFile.open(file, beneath: folder, for: .reading), file), file,
            allowsKeyFile: false)
        known.withLock { [defaults] in $0 = defaults }
    }

    /// The defaults of the user; `nil` if there are none.
    static func user(
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws -> Defaults? {
        if isOff(environment) { return nil }
        let file: String
        if let given = environment["QUIRE_CONFIG"] {
            file = FileSystem.absolute(given)
        } else {
            let folder = FileSystem.userFolder(for: .configuration, environment: environment)
            file = FileSystem.path(folder, "quire/config")
            guard FileSystem.exists(file) else { return nil }
        }
        var defaults = Defaults()
        try defaults.read(
            data(of: OpenFile.open(file, for: .reading), file), file, allowsKeyFile: true)
        return defaults
    }

    private static func isOff(
        _ environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> Bool {
        ["", "/dev/null"].contains(environment["QUIRE_CONFIG"])
    }

    private static func data(of opened: OpenFile, _ file: String) throws -> Data {
        let information = try opened.information()
        guard information.kind == .regular, information.size <= maximumSize else {
            throw QuireError(
                .invalidFormat,
                "“\(file)” is not a file of at most \(maximumSize / 1024) KiB; replace it, or set QUIRE_CONFIG= to read no defaults.",
                file: file)
        }
        return try opened.readToEnd(limit: maximumSize)
    }

    // MARK: - Lines

    /// Reads the lines of a file; they replace those that were read before.
    ///
    /// - Throws: `QuireError` with code `invalidFormat`, which names the line.
    mutating func read(_ data: Data, _ file: String, allowsKeyFile: Bool) throws {
        guard let text = String(validating: data, as: UTF8.self) else {
            throw QuireError(.invalidFormat, "“\(file)” is not UTF-8 text.", file: file)
        }
        var names: Set<String> = []
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            let line = line.trimmingCharacters(in: .whitespaces)
            if line.isEmpty || line.hasPrefix("#") { continue }
            func failure(_ problem: String) -> QuireError {
                QuireError(.invalidFormat, "Line \(index + 1) of “\(file)”: \(problem)", file: file)
            }
            guard let mark = line.firstIndex(of: "=") else {
                throw failure("write name = value.")
            }
            let name = line[..<mark].trimmingCharacters(in: .whitespaces)
            let value = line[line.index(after: mark)...].trimmingCharacters(in: .whitespaces)
            if value.isEmpty { throw failure("“\(name)” has no value.") }
            if !names.insert(name).inserted { throw failure("“\(name)” is specified twice.") }
            switch name {
            case "format":
                guard let format = RowFormat(rawValue: value) else {
                    let formats = RowFormat.allCases.map(\.rawValue).joined(separator: ", ")
                    throw failure("“\(value)” is not a format; specify one of \(formats).")
                }
                self.format = format
            case "key-file" where allowsKeyFile: keyFile = Self.path(value, in: file)
            case "key-file":
                throw failure(
                    "only your own defaults file can specify a key file; remove the line.")
            case _ where name.hasPrefix("columns."):
                columns[String(name.dropFirst("columns.".count))] = (value, file)
            default:
                throw failure(
                    "“\(name)” is not a setting; specify format, columns.ENTITY or key-file.")
            }
        }
    }

    /// A path in a file: from the home folder after `~`, otherwise from the folder of the file.
    private static func path(_ text: String, in file: String) -> String {
        if text.hasPrefix("~/"), let home = ProcessInfo.processInfo.environment["HOME"] {
            return FileSystem.path(home, String(text.dropFirst(2)))
        }
        return text.hasPrefix("/") ? text : FileSystem.path(FileSystem.folder(of: file), text)
    }
}
