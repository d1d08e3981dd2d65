import Foundation
import Testing

/// The Swift code of the documentation is code of this target, which its tests run.
@Suite struct ArticleCodeTests {
    private static let articles = URL(fileURLWithPath: #filePath).deletingLastPathComponent()

    /// The lines between `// snippet: NAME` and `// end` in the files beside this one, by name, without common indentation.
    private func snippets() throws -> [String: String] {
        var snippets: [String: String] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: Self.articles.path)
        where name.hasSuffix("Tests.swift") && name != "ArticleCodeTests.swift" {
            let text = try String(
                contentsOf: Self.articles.appendingPathComponent(name), encoding: .utf8)
            var open: (name: String, lines: [Substring])?
            for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
                let words = line.split(separator: " ")
                if words.starts(with: ["//", "snippet:"]) {
                    #expect(open == nil, "\(name): a snippet begins within another")
                    open = (words.dropFirst(2).joined(separator: " "), [])
                } else if words == ["//", "end"], let snippet = open {
                    #expect(
                        snippets[snippet.name] == nil, "\(name): \(snippet.name) is there twice")
                    snippets[snippet.name] = withoutIndentation(snippet.lines)
                    open = nil
                } else {
                    open?.lines.append(line)
                }
            }
            #expect(open == nil, "\(name): a snippet does not end")
        }
        return snippets
    }

    private func withoutIndentation(_ lines: [Substring]) -> String {
        let depth = lines.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        return lines.map { $0.dropFirst(depth) + "\n" }.joined()
    }

    /// The Swift blocks of the pages in all catalogues, by the page's name with hyphens and their number.
    private func blocks() throws -> [String: String] {
        let sources = Self.articles.appendingPathComponent("../../../Sources").standardizedFileURL
        var blocks: [String: String] = [:]
        for target in try FileManager.default.contentsOfDirectory(atPath: sources.path) {
            let catalogue = sources.appendingPathComponent("\(target)/\(target).docc")
            guard FileManager.default.fileExists(atPath: catalogue.path) else { continue }
            for name in try FileManager.default.contentsOfDirectory(atPath: catalogue.path)
            where name.hasSuffix(".md") {
                let text = try String(
                    contentsOf: catalogue.appendingPathComponent(name), encoding: .utf8)
                let page = name.dropLast(3)
                    .map { $0.isUppercase ? "-\($0.lowercased())" : String($0) }
                    .joined().dropFirst()
                for (number, part) in text.components(separatedBy: "```swift\n").enumerated()
                where number > 0 {
                    blocks["\(page)-\(number)"] = part.components(separatedBy: "```")[0]
                }
            }
        }
        return blocks
    }

    @Test func codeOfTheDocumentationIsRun() throws {
        let snippets = try snippets()
        let blocks = try blocks()
        #expect(blocks.count > 25)
        #expect(Set(snippets.keys) == Set(blocks.keys))
        for (name, block) in blocks { #expect(block == snippets[name], "\(name)") }
    }
}
