import Foundation
import Testing

/// `Sources/README.md` says where things are; what it says is so.
@Suite struct MapTests {
    private static let sources = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Sources")

    private static func map() throws -> String {
        try String(contentsOf: sources.appendingPathComponent("README.md"), encoding: .utf8)
    }

    @Test func declarationsAreWhereTheMapSays() throws {
        let rows = try Self.map().matches(
            of: /(?m)^\| (Where [^|]+\?) \| `([^`|]+)` \| `([^`|]+)` \|$/)
        #expect(rows.count >= 7)
        for row in rows {
            let file = Self.sources.appendingPathComponent(String(row.2))
            let text = try String(contentsOf: file, encoding: .utf8)
            #expect(text.contains("\(row.3)("), "\(row.1)")
        }
    }

    @Test func typesAndMethodsOfTheMapExist() throws {
        let enumerator = try #require(FileManager.default.enumerator(atPath: Self.sources.path))
        var words: Set<Substring> = []
        for case let path as String in enumerator {
            guard path.hasSuffix(".swift") else {
                words.formUnion(path.split(separator: "/"))
                continue
            }
            let text = try String(
                contentsOf: Self.sources.appendingPathComponent(path), encoding: .utf8)
            words.formUnion(text.split { !($0.isLetter || $0.isNumber || $0 == "_") })
        }
        for name in try Self.map().matches(of: /`([A-Za-z]+)(?:\.([A-Za-z]+))?(?:\([a-z:]+\))?`/) {
            #expect(words.contains(name.1), "\(name.0)")
            if let member = name.2 { #expect(words.contains(member), "\(name.0)") }
        }
    }

    @Test func everyModuleOfTheLibraryHasAPage() throws {
        let pages = try Self.map().matches(of: /\]\((\w+\/README\.md)\)/)
        #expect(pages.count == 12)
        for page in pages {
            let file = Self.sources.appendingPathComponent(String(page.1))
            let text = try String(contentsOf: file, encoding: .utf8)
            #expect(text.contains("Invariants"), "\(page.1)")
        }
    }
}
