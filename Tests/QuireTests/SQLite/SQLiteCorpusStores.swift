import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// The SQLite stores of the corpus that Core Data wrote and whose model source is there as well.
struct SQLiteCorpusStore: Sendable, CustomTestStringConvertible {
    /// The store's path below the corpus.
    let path: String
    let modelURL: URL
    let url: URL

    var testDescription: String { (path as NSString).lastPathComponent }

    /// All of them, by the corpus's index.
    static let all: [SQLiteCorpusStore] = {
        guard let folder = Corpus.folder,
            let index = try? String(
                contentsOf: folder.appendingPathComponent("INDEX.md"), encoding: .utf8)
        else { return [] }
        return index.split(separator: "\n").compactMap { line in
            guard line.hasPrefix("| `stores/"), let model = line.range(of: "model: `") else {
                return nil
            }
            let path = String(line.dropFirst(3).prefix { $0 != "`" })
            let modelPath = line[model.upperBound...].prefix { $0 != "`" }
            let repository = path.split(separator: "/")[1]
            let url = folder.appendingPathComponent(path)
            return SQLiteCorpusStore(
                path: path,
                modelURL: folder.appendingPathComponent("models/\(repository)/\(modelPath)"),
                url: url)
        }
    }()

    /// Copies the store, and the log that belongs to it, to a folder.
    func copy(to folder: TemporaryFolder) throws -> String {
        let target = folder.path("copy.sqlite")
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: url.path + suffix) {
            try FileManager.default.copyItem(atPath: url.path + suffix, toPath: target + suffix)
        }
        return target
    }
}
