import Foundation

/// Files that a save shall add, replace or remove. A value: a copy is a snapshot.
struct AdditionalContentChanges: Sendable {
    /// By path: the new bytes, or `nil` if the file goes.
    var files: [String: Data?] = [:]
    /// Writes all files anew, in a subclass's own way, to a folder that is empty, before ``files`` are added and removed. It
    /// is given the folder of the last save too.
    var rewriting: Rewriting?

    typealias Rewriting = @Sendable (_ folder: String, _ original: String?) throws -> Void

    var isEmpty: Bool { files.isEmpty && rewriting == nil }

    /// These changes after others have been made.
    func following(_ earlier: AdditionalContentChanges) -> AdditionalContentChanges {
        AdditionalContentChanges(files: earlier.files.merging(files) { _, new in new })
    }
}
