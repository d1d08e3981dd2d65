package import Foundation

/// Files that are saved with a store's rows, such as the additional content of a document: the store's records name one generation
/// of them, which never changes. Synchronization carries them with the rows.
package protocol AccompanyingFiles: AnyObject, Sendable {
    /// The generation that a store's records name; equal texts are equal files.
    func generation(in records: [String: String]) -> String?
    /// The files of that generation.
    func files(in records: [String: String]) throws -> [AccompanyingFile]
    /// The bytes of one of them; `nil` if there is no such file.
    func contents(of path: String, in records: [String: String]) throws -> Data?
    /// The SHA-256 of one of them.
    func digest(of path: String, in records: [String: String]) throws -> Data?
    /// Runs a closure while nothing else saves the store and its files.
    ///
    /// - Throws: What the closure throws; `invalidState` if the files are not open any more.
    func withTurn(
        _ body: @escaping @Sendable (any AccompanyingFilesWriter) async throws -> Void
    ) async throws
}

/// Changes files; see ``AccompanyingFiles/withTurn(_:)``.
package protocol AccompanyingFilesWriter: Sendable {
    /// Whether a file is to be left alone now, because it has unsaved changes.
    func isUnsaved(_ path: String) -> Bool
    /// Writes a new generation, durably.
    ///
    /// - Parameters:
    ///   - changes: New files, and `nil` for those that are removed.
    ///   - records: The store's records.
    /// - Returns: The records that name the new generation, and the reasons why files cannot have their path.
    func write(
        _ changes: [String: Data?], after records: [String: String]
    ) throws -> (records: [String: String?], refused: [String: String])
}

/// A file of a generation.
package struct AccompanyingFile: Sendable {
    package var path: String
    package var size: Int64
    /// Files with the same number, size and time have the same bytes.
    package var number: UInt64
    /// The creation time, in nanoseconds since 1970. Numbers of removed files are used again.
    package var time: Int64

    package init(path: String, size: Int64, number: UInt64, time: Int64) {
        (self.path, self.size, self.number, self.time) = (path, size, number, time)
    }
}
