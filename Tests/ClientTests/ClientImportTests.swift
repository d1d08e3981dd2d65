import Foundation
import Testing

/// A program of a user has what the products give it.
@Suite struct ClientImportTests {
    /// `packageAccess: false` in `Package.swift` hides what is declared `package`; what is internal is hidden as long as no
    /// import is `@testable`.
    @Test func programsImportTheProductsOnly() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let allowed = [
            "Foundation", "Observation", "Quire", "QuireDocuments", "QuireMacros",
            "QuireRescue",
            "QuireStoreConformance", "QuireSync", "Synchronization", "Testing",
        ]
        .map { "import \($0)" }
        var files = 0
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        where name.hasSuffix(".swift") {
            files += 1
            let text = try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
            let words = text.split(separator: "\n").map { $0.split(separator: " ") }
            for line in words.filter({ $0.dropLast().last == "import" }).map({
                $0.joined(separator: " ")
            }) {
                #expect(allowed.contains(line), "\(name): \(line)")
            }
        }
        #expect(files > 8)
    }
}
