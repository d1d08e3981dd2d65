public import Foundation

/// Files that Apple's tools and other people's apps made, which lie beside the checkout where the team works.
/// They are no part of the project; tests that want them say so where they are not there.
public enum Corpus {
    /// The folder, if there is one: `CORPUS` of the environment, or `../shared/corpus` beside the checkout.
    public static let folder: URL? = {
        let environment = ProcessInfo.processInfo.environment["QUIRE_CORPUS"]
        let checkout = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let candidates =
            [environment.map { URL(fileURLWithPath: $0) }].compactMap { $0 }
            + [checkout.deletingLastPathComponent().appendingPathComponent("shared/corpus")]
        return candidates.first { FileManager.default.fileExists(atPath: $0.path) }
    }()

    /// Says on standard error that a test was skipped for want of the corpus.
    public static func reportSkipped(_ test: String) {
        FileHandle.standardError.write(
            Data("SKIPPED \(test): there is no shared/corpus beside the checkout.\n".utf8))
    }

    /// All files below the folder whose path satisfies a condition, sorted.
    public static func files(where condition: (String) -> Bool) -> [URL] {
        guard let folder,
            let enumerator = FileManager.default.enumerator(atPath: folder.path)
        else { return [] }
        return enumerator.compactMap { $0 as? String }.filter(condition).sorted()
            .map { folder.appendingPathComponent($0) }
    }
}
