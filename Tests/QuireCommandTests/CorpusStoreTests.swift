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

    @Test func migrateTellsOfAppsThatWillNotOpenTheStoreAnyMore() throws {
        let corpus = try #require(Corpus.folder).path
        let resources = "alemar11+CoreDataPlus/Tests/Resources/SampleModel3"
        let sources = "\(corpus)/models/\(resources)/SampleModel3.xcdatamodeld"
        let compiled = "\(corpus)/compiled/\(resources)/Fixtures/SampleModel3.momd"
        let shell = try CommandShell()
        _ = try shell.output(
            "cp '\(corpus)/stores/\(resources)/Fixtures/SampleModel3_V1.sqlite' S.sqlite")
        func migrate(_ options: String) throws -> String {
            try shell.output("cp S.sqlite T.sqlite; quire migrate T.sqlite --no-backup \(options)")
        }
        let toSources = "--model '\(sources)' --version SampleModel3_v2 --allow-removal"
        #expect(try migrate(toSources + " --dry-run").contains("would no longer open it"))
        #expect(try migrate(toSources).contains("will no longer open it"))
        // A single compiled version, and all of them.
        for model in [
            "--model '\(compiled)' --version SampleModel3_v2",
            "--model '\(compiled)/SampleModel3_v2.mom'",
        ] {
            let output = try migrate(model + " --allow-removal")
            #expect(output.contains("was migrated to SampleModel3_v2"))
            #expect(!output.contains("no longer"))
        }
        // The store that was migrated, and carries its model.
        let toStore = try migrate("--model T.sqlite --allow-removal 2>&1 || true")
        #expect(toStore.contains("already has the model T"))
        let optimized = try shell.run("quire model print '\(compiled)/SampleModel3.omo'")
        #expect(optimized.code == 1 && optimized.output.contains("use the .mom file"))
    }

    private func contents(of folder: String) throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            contents[name] = try Data(contentsOf: URL(fileURLWithPath: folder + "/" + name))
        }
        return contents
    }
}
