import Foundation
import Quire

/// What becomes of a file of additional content.
enum AdditionalContentChange: Sendable {
    /// It has these bytes.
    case data(Data)
    /// It has the bytes of a file.
    case file(SpooledFile)
    /// It goes.
    case removal

    var isRemoval: Bool {
        if case .removal = self { return true }
        return false
    }

    /// The bytes that it has then; `nil` if it goes.
    func data() throws -> Data? {
        switch self {
        case .data(let data): data
        case .file(let file): try file.open().readAll()
        case .removal: nil
        }
    }

    /// Makes the file, which must not be there yet, durably but for its name.
    ///
    /// - Parameters:
    ///   - root: The package.
    ///   - classKey: The class key of the package's files, spooled ones included; `nil` for unsealed files.
    func write(to target: String, beneath root: String, sealing classKey: ClassKey?) throws {
        switch self {
        case .data(let data):
            let file = try OpenFile.open(target, beneath: root, for: .creating)
            let writer = try ContentFileWriter(file, sealing: classKey)
            try data.withUnsafeBytes { try writer.write($0) }
            try writer.finish()
        case .file(let file):
            if try file.linkOrCopy(to: target, within: root) {
                try OpenFile.open(target, beneath: root, for: .reading).synchronize()
            }
        case .removal: break
        }
    }
}

/// Files that a save shall add, replace or remove. A value: a copy is a snapshot.
struct AdditionalContentChanges: Sendable {
    /// What becomes of files, by their paths.
    var files: [String: AdditionalContentChange] = [:]
    /// Writes all files anew, in a subclass's own way, to a folder that is empty, before ``files`` are added and removed. It
    /// is given the folder of the last save too.
    var rewriting: Rewriting?

    typealias Rewriting = @Sendable (_ folder: String, _ original: String?) throws -> Void

    var isEmpty: Bool { files.isEmpty && rewriting == nil }

    /// The changes with all bytes, as a draft has them, the files that are too large for one, and the paths of those that
    /// cannot be read.
    func forDraft() -> (
        files: [String: Data?], large: [String: SpooledFile], omitted: [String]
    ) {
        var (content, large, omitted): ([String: Data?], [String: SpooledFile], [String]) =
            ([:], [:], [])
        for (path, change) in files {
            if case .file(let file) = change, file.size > Self.greatestSizeInDraft {
                large[path] = file
            } else if let data = try? change.data() {
                content.updateValue(data, forKey: path)
            } else if change.isRemoval {
                content.updateValue(nil, forKey: path)
            } else {
                omitted.append(path)
            }
        }
        return (content, large, omitted.sorted())
    }

    /// A draft is in the store, and in memory while it is written.
    private static let greatestSizeInDraft: Int64 = 64 << 20

    /// These changes after others have been made.
    func following(_ earlier: AdditionalContentChanges) -> AdditionalContentChanges {
        AdditionalContentChanges(files: earlier.files.merging(files) { _, new in new })
    }
}
