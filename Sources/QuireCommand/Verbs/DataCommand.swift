import ArgumentParser
import Foundation
import Quire
import QuireSQLite

/// `quire data list|get|put PATH …`
struct DataCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "data",
        abstract: "Lists the binary values in external files, and reads and writes binary values.",
        discussion: """
            EXAMPLES:
              quire data list Films.quire
              quire data put Films.quire Film/p1 video 00001.mts
              quire data get Films.quire Film/p1 video -o 00001.mts
            """,
        subcommands: [
            OnDocument<DataListVerb>.self, OnDocument<DataGetVerb>.self,
            OnDocument<DataPutVerb>.self,
        ])
}

/// `quire data get PATH ID ATTRIBUTE [-o FILE]`
struct DataGetVerb: DocumentVerb {
    static let name = "get"
    static let abstract = "Writes a binary value to a file or to standard output."
    static let discussion = """
        The bytes are checked against their digest, if the store has recorded one. Only one block \
        at a time is in memory. The file appears under its name only when it is complete.

        EXAMPLES:
          quire data get Films.quire Film/p1 video -o 00001.mts
          quire data get Films.quire Film/p1 video | mpv -
        """

    @Argument(help: ArgumentHelp("The object.", valueName: "OBJECT"))
    var object: String

    @Argument(help: ArgumentHelp("A binary attribute.", valueName: "ATTRIBUTE"))
    var attribute: String

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("The new file; it must not exist.", valueName: "FILE"))
    var output: String?

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let object = try document.object(named: object)
        guard let data = try object.externalData(forKey: attribute) else {
            throw QuireError(
                .notFound, "“\(attribute)” of \(object.objectID.shortDescription) has no value.",
                subject: .init(property: attribute, object: object.objectID.uriRepresentation))
        }
        guard let output else { return try await stream(data) }
        try data.copy(to: output)
        let id = object.objectID
        let sentence =
            "Wrote \(attribute) of \(id.shortDescription) to \(output): \(Count.of(data.size, "byte"))."
        return Reply {
            try $0.printResult(levels: 0, [sentence]) {
                .object([
                    "id": .string(id.uriRepresentation), "attribute": .string(attribute),
                    "bytes": .integer(Int64(data.size)), "path": .string(output),
                ])
            }
        }
    }

    @MainActor
    private func stream(_ data: ExternalData) async throws -> Reply {
        if isatty(STDOUT_FILENO) == 1 {
            throw Failure.usage(
                "Binary data cannot be written to a terminal; specify a file with -o, or pipe the output."
            )
        }
        for try await chunk in data.chunks() {
            try chunk.withUnsafeBytes(Output.write)
        }
        return Reply { _ in }
    }
}

/// `quire data put PATH ID ATTRIBUTE FILE|-`
struct DataPutVerb: DocumentVerb {
    static let name = "put"
    static let abstract = "Sets a binary attribute from a file or standard input."
    static let discussion = """
        Only one block of the bytes at a time is in memory.

        EXAMPLES:
          quire data put Films.quire Film/p1 video 00001.mts
          curl -s https://example.org/film.mkv | quire data put Films.quire Film/p2 video -
        """
    static let access = DocumentSession.Access.write

    @Argument(help: ArgumentHelp("The object.", valueName: "OBJECT"))
    var object: String

    @Argument(help: ArgumentHelp("A binary attribute.", valueName: "ATTRIBUTE"))
    var attribute: String

    @Argument(help: ArgumentHelp("The file, or - for standard input.", valueName: "FILE"))
    var file: String

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let object = try document.object(named: object)
        if file == "-" {
            try object.setExternalData(readingFrom: .standardInput, forKey: attribute)
        } else {
            try await object.setExternalData(contentsOf: file, forKey: attribute)
        }
        let size = try object.externalData(forKey: attribute)?.size ?? 0
        return Reply {
            let id = object.objectID
            let sentence = "Set \(attribute) of \(id.shortDescription): \(Count.of(size, "byte"))."
            try $0.printResult(levels: 0, [sentence]) {
                .object([
                    "id": .string(id.uriRepresentation), "attribute": .string(attribute),
                    "bytes": .integer(Int64(size)),
                ])
            }
        }
    }
}

/// `quire data list PATH [--verify]`
struct DataListVerb: DocumentVerb {
    static let name = "list"
    static let abstract = "Lists the binary values in external files."
    static let discussion = """
        The last column shows whether the digest of the file is recorded (never in Core Data \
        stores), or that the file is missing or has the wrong size. With --verify, every file is \
        read, and reported as whole or damaged.

        EXAMPLES:
          quire data list Films.quire
          quire data list Films.quire --verify --json
        """
    typealias Printing = RowOptions

    @Flag(help: "Read every file and compare it with its digest.")
    var verify = false

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let values = try (document.store as? SQLiteStore)?.externalValues() ?? []
        let rows = try values.map { ($0, try verify ? $0.verifiedState() : $0.state) }
        return Reply {
            try $0.printRows(
                of: rows,
                [
                    ("object", .left), ("attribute", .left), ("bytes", .right), ("file", .left),
                    ("digest", .left),
                ], members: ["id", "attribute", "bytes", "file", "state", "sha256"],
                ifEmpty: "No values in external files."
            ) { value, state in
                let id = value.objectID
                let members: [String: JSONValue] = [
                    "id": .string(id.uriRepresentation), "attribute": .string(value.attribute),
                    "bytes": .integer(value.size), "file": .string(value.name),
                    "state": .string(state.rawValue),
                    "sha256": JSONValue(value.sha256.map(ComparedValue.hexadecimal)),
                ]
                let texts = [id.shortDescription, value.attribute, "\(value.size)", value.name]
                return (texts + [state.rawValue], .object(members))
            }
        }
    }
}
