public import Foundation
public import Quire

/// What a document has not been able to save: changes of its objects, valid or not, and of its additional content.
///
/// It lies in the package's store, beside what was saved, until a save has written what it stands for.
public struct DocumentDraft: Sendable, Hashable {
    /// When it was made.
    public var date: Date
    /// The changes of objects.
    public var objects: ObjectDraft
    /// The changes of additional content by path: the new bytes, or `nil` if the file goes.
    public var content: [String: Data?]

    /// The version of the form of the bytes.
    private static let format = 1

    private enum Key {
        static let format = "format"
        static let date = "date"
        static let objects = "objects"
        static let files = "files"
        static let removedFiles = "removedFiles"
    }

    /// Makes a draft.
    public init(date: Date = Date(), objects: ObjectDraft, content: [String: Data?] = [:]) {
        self.date = date
        self.objects = objects
        self.content = content
    }

    /// Whether it stands for no changes.
    public var isEmpty: Bool { objects.isEmpty && content.isEmpty }

    /// Whether another draft, of whatever time, stands for the same changes.
    func hasSameChanges(as other: DocumentDraft) -> Bool {
        objects == other.objects && content == other.content
    }

    /// The draft as bytes: a binary property list.
    func encoded() throws -> Data {
        try PropertyListSerialization.data(
            fromPropertyList: [
                Key.format: Self.format, Key.date: date, Key.objects: objects.encoded(),
                Key.files: content.compactMapValues { $0 },
                Key.removedFiles: content.filter { $0.value == nil }.keys.sorted(),
            ] as [String: Any],
            format: .binary, options: 0)
    }

    /// Reads a draft.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the bytes are none, `unsupported` if a newer version has
    ///   made them.
    init(decoding bytes: Data) throws {
        let list: [String: Any]?
        do {
            list =
                try PropertyListSerialization.propertyList(from: bytes, format: nil)
                as? [String: Any]
        } catch {
            throw Self.damaged(error)
        }
        guard let list, let format = list[Key.format] as? Int else { throw Self.damaged(nil) }
        guard format <= Self.format else {
            throw QuireError(
                .unsupported,
                "The draft has the format \(format), this version reads up to \(Self.format); open the document with a "
                    + "newer version.")
        }
        guard let date = list[Key.date] as? Date, let objects = list[Key.objects] as? Data,
            let files = list[Key.files] as? [String: Data],
            let removed = list[Key.removedFiles] as? [String]
        else { throw Self.damaged(nil) }
        self.date = date
        self.objects = try ObjectDraft(decoding: objects)
        content = files.mapValues { $0 }
        for path in removed { content.updateValue(nil, forKey: path) }
    }

    private static func damaged(_ error: (any Error)?) -> QuireError {
        QuireError(.invalidFormat, "The draft cannot be read: it is none.", underlying: error)
    }
}

extension DocumentPackage {
    /// Keeps a draft in the store, in the place of the one that there is. What is saved does not change. When it returns,
    /// the draft survives power loss.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`; then the draft is the one that
    ///   there was.
    public func writeDraft(_ draft: DocumentDraft) throws {
        try store.writeDraft(draft.encoded())
    }

    /// The draft, or `nil` if there is none.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is damaged, `unsupported` if a newer version has made it, or
    ///   what reading throws.
    public func draft() throws -> DocumentDraft? {
        do {
            return try store.draft().map(DocumentDraft.init(decoding:))
        } catch var error as QuireError {
            if error.subject.file == nil { error.subject.file = layout.store }
            throw error
        }
    }

    /// Whether there is a draft, readable or not.
    public func hasDraft() throws -> Bool { try store.hasDraft() }

    /// Removes the draft, if there is one: what it stands for is given up.
    ///
    /// - Throws: ``QuireError`` with code `readOnly`, `outOfSpace` or `storeUnavailable`.
    public func removeDraft() throws { try store.removeDraft() }
}
