import Foundation

/// Files that a save shall add, replace or remove. A value: a copy is a snapshot.
struct AdditionalContentChanges: Sendable {
    /// By path: the new bytes, or `nil` if the file goes.
    var files: [String: Data?] = [:]

    var isEmpty: Bool { files.isEmpty }

    /// These changes after others have been made.
    func following(_ earlier: AdditionalContentChanges) -> AdditionalContentChanges {
        AdditionalContentChanges(files: earlier.files.merging(files) { _, new in new })
    }
}
