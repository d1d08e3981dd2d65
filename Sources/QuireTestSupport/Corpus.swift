public import Foundation

/// Files that Apple's tools and other people's apps made, which lie beside the checkout where the team works.
/// They are no part of the project; tests that read them have the trait `.corpus`, and are skipped where there are none.
public enum Corpus {
    /// The folder, if there is one: `QUIRE_CORPUS` of the environment if that is set, else `../shared/corpus` beside
    /// the checkout.
    public static let folder: URL? = {
        let checkout = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let candidate =
            ProcessInfo.processInfo.environment["QUIRE_CORPUS"].map { URL(fileURLWithPath: $0) }
            ?? checkout.deletingLastPathComponent().appendingPathComponent("shared/corpus")
        return FileManager.default.fileExists(atPath: candidate.path) ? candidate : nil
    }()

    /// All files below the folder whose path satisfies a condition, sorted.
    public static func files(where condition: (String) -> Bool) -> [URL] {
        guard let folder,
            let enumerator = FileManager.default.enumerator(atPath: folder.path)
        else { return [] }
        return enumerator.compactMap { $0 as? String }.filter(condition).sorted()
            .map { folder.appendingPathComponent($0) }
    }
}
