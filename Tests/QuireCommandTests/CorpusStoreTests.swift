import Foundation
import QuireTestSupport
import Testing

/// Every store of the corpus whose model is there too, through the command: what it holds can be told, listed,
/// dumped and checked, and looking at it changes no byte. Of the entities three are listed, drawn by the seed, or all with
/// `QUIRE_TORTURE=1`.
@Suite(.corpus) struct CorpusStoreTests {
    /// A store and its model, as the corpus' index names them.
    struct Pair: CustomTestStringConvertible {
        var store: String
        var model: String
        var testDescription: String { store }
    }

    static let pairs: [Pair] = {
        guard let folder = Corpus.folder,
            let index = try? String(
                contentsOf: folder.appendingPathComponent("INDEX.md"), encoding: .utf8)
        else { return [] }
        return index.split(separator: "\n").compactMap { line in
            guard
                let match = line.firstMatch(of: /^\| `(stores\/([^\/]+)\/[^`]+)`.*model: `([^`]+)`/)
            else { return nil }
            return Pair(store: String(match.1), model: "models/\(match.2)/\(match.3)")
        }
    }()

    private struct Info: Decodable {
        struct Entity: Decodable {
            var name: String
            var abstract: Bool
            var count: Int
        }
        var kind: String
        var storeType: String
        var entities: [Entity]
    }

    private struct Dump: Decodable {
        struct Object: Decodable { var id: String }
        var format: String
        var entities: [String: [Object]]
    }

    @Test func theIndexNamesPairs() { #expect(Self.pairs.count >= 25) }

    @Test(arguments: pairs)
    func commandReadsTheStoreAndLeavesItAlone(_ pair: Pair) throws {
        let corpus = try #require(Corpus.folder)
        let shell = try CommandShell()
        let name = URL(fileURLWithPath: pair.store).lastPathComponent
        for suffix in ["", "-wal"] {
            let source = corpus.path + "/" + pair.store + suffix
            if FileManager.default.fileExists(atPath: source) {
                try FileManager.default.copyItem(atPath: source, toPath: shell.path(name + suffix))
            }
        }
        let files = try contents(of: shell.folder.path)
        let options = "\"\(name)\" --model \"\(corpus.path)/\(pair.model)\""

        let info = try JSONDecoder().decode(
            Info.self, from: Data(shell.output("quire info \(options) --json").utf8))
        #expect(info.kind == "store")
        #expect(info.storeType == "SQLite")
        let dump = try JSONDecoder().decode(
            Dump.self, from: Data(shell.output("quire dump \(options)").utf8))
        #expect(dump.format == "quire-dump/1")
        let entities = info.entities.filter { !$0.abstract }
        for entity in entities {
            #expect(dump.entities[entity.name]?.count == entity.count, "\(entity.name)")
        }
        for entity in SeededRandom.sample(of: entities, 3, for: pair.store) {
            let fetch = try shell.output(
                "quire fetch \(options) \(entity.name) --where TRUEPREDICATE --json")
            let objects = try JSONDecoder().decode([Dump.Object].self, from: Data(fetch.utf8))
            #expect(objects.count >= entity.count, "\(entity.name)")
        }
        #expect(try shell.output("quire check \(options)").hasSuffix("all is well.\n"))
        #expect(try contents(of: shell.folder.path) == files)
    }

    private func contents(of folder: String) throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            contents[name] = try Data(contentsOf: URL(fileURLWithPath: folder + "/" + name))
        }
        return contents
    }
}
