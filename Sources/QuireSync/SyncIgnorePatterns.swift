import Foundation
import QuireSystem

/// Patterns of files that a sync tool must not carry, for a folder that contains documents or stores.
///
/// Keep a document that is edited on two machines outside such a folder, and synchronize it with ``SyncContainer``. Other
/// documents may be carried as files while they are closed. The files beside them while they are open must stay on their machine:
/// a write-ahead log without its store, or a store with the log of another machine, is a damaged store, and a lock file that
/// another machine removes does not lock anything.
///
/// ```swift
/// try SyncIgnorePatterns().writeSyncthingIgnoreFile(in: "/home/ada/Sync")
/// ```
///
/// A document's versions are part of it and match no pattern: each is complete and never changes. The large files of a draft,
/// which contains unsaved changes, match: they belong to the machine on which the document was open.
public struct SyncIgnorePatterns: Sendable, Hashable {
    /// A pattern of names in any folder, with `*` and `?` for characters other than `/`. The content of a matching folder is
    /// ignored too. The first pattern that matches decides.
    public struct Pattern: Sendable, Hashable {
        /// The pattern.
        public let glob: String
        /// Whether a matching file may be deleted with its folder, if another machine has deleted the folder. Files that may not
        /// are the only copy of saved or typed data.
        public let isDeletedWithFolder: Bool

        init(_ glob: String, isDeletedWithFolder: Bool = false) {
            self.glob = glob
            self.isDeletedWithFolder = isDeletedWithFolder
        }

        /// The line of a `.stignore` file.
        public var syncthingLine: String { isDeletedWithFolder ? "(?d)" + glob : glob }
    }

    /// The known extensions of documents, without the dot.
    public static let documentExtensions = ["quire"]
    /// The known extensions of stores, without the dot.
    public static let storeExtensions = ["sqlite", "sqlite3", "db", "store"]

    /// The patterns, in the order in which they are tried.
    public let patterns: [Pattern]

    /// Creates the patterns for documents and stores whose names have one of the extensions.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if an extension contains characters other than letters, digits, `-` and
    ///   `_`.
    public init(
        documentExtensions: [String] = Self.documentExtensions,
        storeExtensions: [String] = Self.storeExtensions
    ) throws {
        for name in documentExtensions + storeExtensions where !Self.isValidExtension(name) {
            throw QuireError(
                .invalidValue,
                "“\(name)” is not a file name extension; specify letters and digits, without a dot."
            )
        }
        let uuid = "????????-????-????-????-????????????"
        var patterns = [
            // What an exchange without a system call for it has displaced; it may be the only one.
            Pattern(".*.quire-aside-*"),
            Pattern(".*.quire-*", isDeletedWithFolder: true),
            Pattern(".tmp-" + uuid, isDeletedWithFolder: true),
            Pattern("DraftFiles/" + uuid),
        ]
        for name in documentExtensions {
            patterns.append(Pattern("*.\(name)/.lock", isDeletedWithFolder: true))
        }
        for store in ["StoreContent/persistentStore"] + storeExtensions.map({ "*." + $0 }) {
            patterns += [
                Pattern(store + "-wal"), Pattern(store + "-journal"),
                Pattern(store + "-shm", isDeletedWithFolder: true),
            ]
        }
        var known: Set<Pattern> = []
        self.patterns = patterns.filter { known.insert($0).inserted }
    }

    private static func isValidExtension(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 64
            && name.unicodeScalars.allSatisfy {
                CharacterSet.alphanumerics.contains($0) || $0 == "-" || $0 == "_"
            }
    }

    // MARK: - Syncthing

    /// The name of the file in which Syncthing looks for patterns, in the folder that it shares.
    public static let syncthingFileName = ".stignore"

    private static let begin = "// BEGIN QUIRE: files of open documents and stores"
    private static let end = "// END QUIRE"
    private static let maximumSize = 1 << 20

    /// Adds the patterns to the `.stignore` of a folder that Syncthing shares, between two lines that mark them. The file is
    /// created if it does not exist, and replaced atomically. The rest of its content is unchanged.
    ///
    /// The patterns come first, where they take precedence over all others; marked lines that were moved stay where they are.
    /// Each machine needs them, because Syncthing does not carry the file.
    ///
    /// - Returns: The lines that were missing. If there are none, the file is not written.
    /// - Throws: `QuireError` with code `notFound` if the folder does not exist; `invalidValue` if Syncthing shares a folder
    ///   above this one instead; `invalidFormat` if the file is a symbolic link, is larger than 1 MiB, or contains only one of
    ///   the two marking lines; `readOnly`, `outOfSpace` or `inputOutput` if it cannot be read or written.
    @discardableResult
    public func writeSyncthingIgnoreFile(in folder: String) throws -> [String] {
        let folder = FileSystem.absolute(folder)
        try OpenFile.open(folder, for: .folder).close()
        try Self.requireTop(folder)
        let path = FileSystem.path(folder, Self.syncthingFileName)
        var old: Data?
        do {
            old = try FileSystem.contents(of: path, beneath: folder, limit: Self.maximumSize)
        } catch let error as QuireError where error.code == .notFound {
            // It is made.
        }
        guard let (new, added) = adding(to: old ?? Data()) else {
            throw QuireError(
                .invalidFormat,
                "“\(path)” contains only one of the lines “\(Self.begin)” and “\(Self.end)”; remove it, and try again.",
                file: path)
        }
        if !added.isEmpty { try AtomicFileReplace.replace(path, beneath: folder, with: new) }
        return added
    }

    /// Throws if a folder above has Syncthing's marker, and the folder itself has not: no other ignore file than that one's is read.
    private static func requireTop(_ folder: String) throws {
        var top = folder
        while !FileSystem.exists(FileSystem.path(top, ".stfolder")) {
            let parent = FileSystem.folder(of: top)
            if parent == top || parent.isEmpty { return }
            top = parent
        }
        if top == folder { return }
        throw QuireError(
            .invalidValue,
            "“\(folder)” is in “\(top)”, the folder that Syncthing shares; Syncthing reads only the \(syncthingFileName) there. Specify that folder.",
            file: folder)
    }

    /// A file with the lines that are missing in it, and those lines; `nil` if the marks in it are not a pair.
    func adding(to contents: Data) -> (contents: Data, added: [String])? {
        var lines = contents.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            .map { Data($0) }
        let carriageReturn = lines.count > 1 && lines[0].last == UInt8(ascii: "\r") ? "\r" : ""
        func text(_ line: Data) -> String {
            String(decoding: line, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        }
        func line(_ text: String) -> Data { Data((text + carriageReturn).utf8) }

        let beginning = lines.firstIndex { text($0).hasPrefix("// BEGIN QUIRE") }
        let ending = lines.firstIndex { text($0).hasPrefix("// END QUIRE") }
        var marked: Range<Int>
        switch (beginning, ending) {
        case (nil, nil):
            // Syncthing reads #escape only before all patterns.
            let head = lines.prefix(while: {
                let text = text($0)
                return text.isEmpty || text.hasPrefix("//") || text.hasPrefix("#escape")
            })
            let place = head.lastIndex { text($0).hasPrefix("#escape") }.map { $0 + 1 } ?? 0
            lines.insert(contentsOf: [line(Self.begin), line(Self.end)], at: place)
            marked = place + 1..<place + 1
        case (let beginning?, let ending?) where beginning < ending:
            marked = beginning + 1..<ending
        default: return nil
        }
        // A missing line comes before the next one that is there, because the first that matches decides.
        var added: [String] = []
        var next = marked.upperBound
        for pattern in patterns.reversed() {
            let wanted = pattern.syncthingLine
            if let found = lines[marked].firstIndex(where: { text($0) == wanted }) {
                next = found
            } else {
                lines.insert(line(wanted), at: next)
                marked = marked.lowerBound..<marked.upperBound + 1
                added.append(wanted)
            }
        }
        return (Data(lines.joined(separator: [UInt8(ascii: "\n")])), added.reversed())
    }
}
