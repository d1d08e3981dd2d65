import ArgumentParser
import Foundation
import QuireDocuments
import Testing

@testable import Quire
@testable import QuireCommand
@testable import QuireSQLite

/// Results and imports of any size pass through little memory.
@MainActor @Suite struct StreamingTests {
    /// A bare store of the template Library with many books of few authors, open for reading.
    private func library(
        books: Int, authors: Int, in shell: CommandShell
    ) async throws -> DocumentSession {
        let rows = (0..<books).map { "Book \($0),Author \($0 % authors)\n" }.joined()
        try Data(("title,author.name\n" + rows).utf8)
            .write(to: URL(fileURLWithPath: shell.path("books.csv")))
        _ = try shell.output(
            "quire new L.quire --template Library && quire import L.quire Book books.csv")
        return try await DocumentSession.open(
            shell.path("L.quire"), modelPath: nil, access: .read)
    }

    /// The statements that have been run to read when the first bytes are written, and in all.
    private func statements(
        printing reply: Reply, of document: DocumentSession, as format: RowFormat = .json,
        stopping: Bool = false
    ) throws -> (first: Int, all: Int, bytes: Int) {
        let store = try #require(document.store as? SQLiteStore)
        let start = store.readStatementCount
        var first: Int?
        var bytes = 0
        let output = Output(format) { block in
            first = first ?? store.readStatementCount - start
            bytes += block.count
            if stopping { throw OutputClosed() }
        }
        do {
            try reply.print(output)
            try output.flush()
        } catch is OutputClosed {}
        return (try #require(first), store.readStatementCount - start, bytes)
    }

    @Test(arguments: RowFormat.allCases)
    func objectsArePrintedAsTheyAreRead(format: RowFormat) async throws {
        let shell = try CommandShell()
        let document = try await library(books: 5000, authors: 10, in: shell)
        let layout = document.layout
        let entity = try layout.requireEntity(named: "Book")
        let paths = try ["title", "author.name"].map {
            try PropertyPath($0, in: entity, of: layout)
        }
        let reply = Reply { output in
            var request = FetchRequest("Book")
            request.readInBatches(for: paths)
            let listing = ObjectListing(
                objects: try document.context.fetch(request), entity: entity, paths: paths,
                document: document)
            try listing.print(output)
        }
        let all = try statements(printing: reply, of: document, as: format)
        #expect(all.first < all.all * 2 / 3)
        #expect(all.bytes > 1 << 16)
        // Whoever has seen enough, as `head`, ends the work.
        let stopped = try statements(
            printing: reply, of: document, as: format, stopping: true)
        #expect(stopped.all <= all.first)
        try await document.close()
    }

    /// The last row cannot be read; what comes before it is printed all the same.
    @Test(arguments: RowFormat.allCases)
    func computedRowsArePrintedAsTheyAreRead(format: RowFormat) async throws {
        let shell = try CommandShell()
        try await library(books: 5000, authors: 10, in: shell).close()
        let document = try await DocumentSession.open(
            shell.path("L.quire"), modelPath: nil, access: .write)
        let store = try #require(document.store as? SQLiteStore)
        try store.executeOnWriter("UPDATE ZBOOK SET ZAUTHOR = -1 WHERE Z_PK = 5000")
        let columns = "title,author,length(title) AS length"
        for grouping in [[], ["--group-by", "title,author"]] {
            var printed = ""
            let output = Output(format) { printed += String(decoding: $0, as: UTF8.self) }
            let verb = try FetchVerb.parse(
                ["Book", "--columns", grouping.isEmpty ? columns : "title,author,count(*) AS n"]
                    + grouping)
            let error = await #expect(throws: QuireError.self) {
                try await verb.run(on: document).print(output)
            }
            #expect(error?.code == .invalidFormat)
            #expect(printed.utf8.count >= 1 << 16, "\(grouping)")
        }
        try await document.closeDiscardingChanges()
    }

    @Test func rowsThatAreComputedInMemoryArePrintedAsTheyAreRead() async throws {
        let shell = try CommandShell()
        let document = try await library(books: 4000, authors: 4000, in: shell)
        let reply = try await FetchVerb.parse([
            "Author", "--columns", "name,books[FIRST].title AS first",
        ]).run(on: document)
        let count = try statements(printing: reply, of: document)
        #expect(count.first < count.all / 2)
        #expect(
            try shell.output(
                "quire fetch L.quire Author --columns 'name,books[FIRST].title AS t' --offset 2500 --limit 2"
            ).contains("\nAuthor 2501  Book 2501\n"))
        try await document.close()
    }

    @Test func theFirstComputedRowsDecideAboutTheSidesOfColumns() async throws {
        let shell = try CommandShell()
        try await library(books: 1500, authors: 10, in: shell).close()
        let lines = try shell.output(
            "quire fetch L.quire Book --columns 'title,length(title) AS n'"
        ).split(separator: "\n")
        #expect(lines.count == 1501)
        #expect(lines.prefix(2) == ["title     n", "Book 0    6"])
        #expect(lines.last == "Book 1499  9")
        #expect(
            try shell.output("quire fetch L.quire Book --where FALSEPREDICATE --columns 'year+1'")
                == "No rows.\n")
    }

    @Test func dumpPrintsObjectsAsTheyAreReadWithFewStatements() async throws {
        let shell = try CommandShell()
        let document = try await library(books: 3000, authors: 1000, in: shell)
        let reply = try await DumpVerb().run(on: document)
        let count = try statements(printing: reply, of: document)
        #expect(count.first < count.all / 2)
        // Not one for each relationship of each object.
        #expect(count.all < 500)
        try await document.close()
    }

    @Test func tableColumnsAreAsWideAsTheFirstRowsNeed() throws {
        var lines: [String] = []
        let output = Output(json: false) {
            lines += String(decoding: $0, as: UTF8.self).split(separator: "\n").map(String.init)
        }
        var table = TableOutput([("a", .right), ("b", .left)], to: output)
        for number in 0..<TableOutput.firstRowCount { try table.add(["\(number)", "x"]) }
        try table.add(["100000", "y"])
        try table.add(["7", "z"])
        try table.finish()
        try output.flush()
        #expect(lines.first == "  a  b")
        #expect(lines.suffix(3) == ["999  x", "100000  y", "  7  z"])
    }

    @Test func aReaderThatHasSeenEnoughEndsTheWorkQuietly() async throws {
        let shell = try CommandShell()
        try await library(books: 5000, authors: 10, in: shell).close()
        for command in [
            "fetch L.quire Book", "fetch L.quire Book --json", "dump L.quire",
            "fetch L.quire Book --csv", "fetch L.quire Book --markdown",
            "fetch L.quire Book --columns 'title,year+1'",
        ] {
            let result = try shell.run(
                "set -o pipefail; (quire \(command); echo \"status $?\" >&2) | head -n 1 > /dev/null"
            )
            #expect(result.output == "status 0\n", "\(command)")
        }
    }
}

/// What an import adds does not depend on how it is saved.
@MainActor @Suite struct ImportPortionTests {
    /// Books that refer to authors, old and new, by name and by identifier, and to nothing.
    private static let books: String =
        "title,author.name,author.born,year\n"
        + (0..<2500).map {
            "Book \($0),\($0 % 7 == 0 ? "" : "Author \($0 % 300)"),,\(1500 + $0 % 500)\n"
        }
        .joined()

    /// The type of a bare store of a name; `nil` if it is a document's.
    private static func type(of name: String) -> String? {
        name.hasSuffix(".quire") ? nil : name.split(separator: ".").last.map(String.init)
    }

    /// The dump of a document without what differs from document to document.
    private func dump(_ document: String, in shell: CommandShell) throws -> String {
        try shell.output("quire dump \(document)")
            .replacing(#/x-coredata:\/\/[^\/]+\//#, with: "")
            .replacing(#/"addedAt": "[^"]*"/#, with: "")
    }

    @Test(arguments: ["L.quire", "L.sqlite", "L.xml", "L.binary"])
    func oneTransactionInPortionsSavesTheSameAsASession(_ name: String) throws {
        let shell = try CommandShell()
        try Data(Self.books.utf8).write(to: URL(fileURLWithPath: shell.path("books.csv")))
        let start =
            "quire new L.quire --template Library && quire insert L.quire Author name='Author 5'"
        _ = try shell.output(start)
        if let type = Self.type(of: name) {
            _ = try shell.output("quire convert L.quire \(name) --to \(type)")
        }
        _ = try shell.output("cp -r \(name) S-\(name)")
        let imported = try shell.output("quire import \(name) Book books.csv")
        #expect(imported == "Imported 2500 objects of Book and created 299 of Author.\n")
        let inSession = try shell.output("echo import Book books.csv | quire open S-\(name)")
        #expect(inSession.hasPrefix(imported))
        let portions = try dump(name, in: shell)
        #expect(portions == (try dump("S-\(name)", in: shell)))
        #expect(try shell.output("quire check \(name)").hasSuffix("all is well.\n"))
    }

    @Test func identifiersOfAnImportTakeNoRoomForEachRow() async throws {
        let shell = try CommandShell()
        try Data(Self.books.utf8).write(to: URL(fileURLWithPath: shell.path("books.csv")))
        _ = try shell.output("quire new L.quire --template Library")
        let document = try await DocumentSession.open(
            shell.path("L.quire"), modelPath: nil, access: .write)
        let rows = ImportRows(
            source: .file(try InputFile.rereadable(shell.path("books.csv")), .csv),
            entity: try document.layout.requireEntity(named: "Book"), layout: document.layout)
        let result = try ObjectImport(document: document, portionSize: 100).run(rows)
        #expect(result.imported().count == 2500 && result.imported().runCount == 1)
        #expect(result.related().countsByEntity == ["Author": 300])
        #expect(result.related().runCount == 1)
        try await document.close()
    }

    @Test func relationshipsToManyAreTheSameInPortionsToo() throws {
        let shell = try CommandShell()
        let posts =
            (0..<2500).map {
                #"{"title": "P\#($0)", "tags.name": ["t\#($0 % 40)", "u\#($0 % 31)", "welcome"]}"#
            }
        try Data("[\(posts.joined(separator: ","))]".utf8)
            .write(to: URL(fileURLWithPath: shell.path("posts.json")))
        _ = try shell.output(
            "quire new N.quire --template Notes && cp -r N.quire S.quire && quire import N.quire Post posts.json"
        )
        _ = try shell.output("echo import Post posts.json | quire open S.quire")
        #expect(try dump("N.quire", in: shell) == dump("S.quire", in: shell))
        #expect(try shell.output("quire check N.quire").hasSuffix("all is well.\n"))
    }

    /// The last row is refused when it is saved, long after the first portions were.
    @Test(arguments: ["N.quire", "N.sqlite"])
    func whatIsRefusedByASaveLeavesNothingOfEarlierPortions(_ name: String) throws {
        let shell = try CommandShell()
        let tags = (0..<2500).map { "tag \($0)\n" }.joined() + "tag 3\n"
        try Data(("name\n" + tags).utf8)
            .write(to: URL(fileURLWithPath: shell.path("tags.csv")))
        _ = try shell.output("quire new N.quire --template Notes")
        if let type = Self.type(of: name) {
            _ = try shell.output("quire convert N.quire \(name) --to \(type)")
        }
        let before = try shell.output("quire dump \(name)")
        let result = try shell.run("quire import \(name) Tag tags.csv")
        #expect(result.code == ExitStatus.invalidData.rawValue)
        #expect(result.output.hasPrefix("quire: "), "\(result.output)")
        #expect(try shell.output("quire dump \(name)") == before)
        #expect(try shell.output("quire check \(name)").hasSuffix("all is well.\n"))
        // And nothing stands in the way of the next one.
        _ = try shell.output("sed -i '$ d' tags.csv")
        #expect(
            try shell.output("quire import \(name) Tag tags.csv")
                == "Imported 2500 objects of Tag.\n")
    }

    @Test func aPipeIsImportedAsAFileIs() throws {
        let shell = try CommandShell()
        try Data(Self.books.utf8).write(to: URL(fileURLWithPath: shell.path("books.csv")))
        _ = try shell.output("quire new L.quire --template Library && mkfifo pipe.csv")
        #expect(
            try shell.output("cat books.csv > pipe.csv & quire import L.quire Book pipe.csv")
                == "Imported 2500 objects of Book and created 300 of Author.\n")
    }

    @Test func identifiersOfAllRowsAreToldInTheirOrder() throws {
        struct Reply: Decodable {
            var ids: [String]
            var related: [String]
        }
        let shell = try CommandShell()
        try Data(Self.books.utf8).write(to: URL(fileURLWithPath: shell.path("books.csv")))
        let output = try shell.output(
            "quire new L.quire --template Library > new.txt && quire import L.quire Book books.csv --json"
        )
        let reply = try JSONDecoder().decode(Reply.self, from: Data(output.utf8))
        #expect(reply.ids.map { $0.split(separator: "/").last } == (1...2500).map { "p\($0)" })
        #expect(reply.related.map { $0.split(separator: "/").last } == (1...300).map { "p\($0)" })
    }
}
