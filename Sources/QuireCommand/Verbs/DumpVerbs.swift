import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire dump PATH`
struct DumpVerb: DocumentVerb {
    static let name = "dump"
    static let abstract = "Prints all objects as canonical JSON: equal documents give equal bytes."
    static let discussion = """
        The format is quire-dump/1: {"entities": {NAME: [{"id": …, ATTRIBUTE: …, RELATIONSHIP: …}]}, \
        "format": "quire-dump/1"}, with names in order, objects in the order of their keys, and every object \
        under its own entity. Transient attributes are omitted. load adds the objects of a dump to a document.

        EXAMPLES:
          quire dump Library.quire > library.json
          diff <(quire dump A.quire) <(quire dump B.quire)
        """

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        Reply { output in
            let separator = output.compact ? ", " : ",\n"
            let (open, close) = output.compact ? ("", "") : ("\n", "\n")
            let inner = output.compact ? "" : "    "
            let outer = output.compact ? "" : "  "
            try output.print(raw: "{\(open)\(outer)\"entities\": {")
            let entities = document.layout.entities.filter { !$0.isAbstract }
                .sorted { $0.name < $1.name }
            for (index, entity) in entities.enumerated() {
                try output.print(raw: (index == 0 ? open : separator) + inner)
                try output.print(raw: .string(entity.name))
                try output.print(raw: ": ")
                try printObjects(of: entity, in: document, output)
            }
            let end = entities.isEmpty ? "" : close + outer
            try output.print(
                raw: "\(end)}\(separator)\(outer)\"format\": \"quire-dump/1\"\(close)}\n")
        }
    }

    @MainActor
    private func printObjects(
        of entity: ResolvedEntity, in document: DocumentSession, _ output: Output
    ) throws {
        let paths = try PropertyPath.stored(of: entity, in: document.layout)
        var request = FetchRequest(entity.name)
        request.includesSubentities = false
        request.readInBatches(for: paths)
        try output.printList(indentation: 4, ending: "") { element in
            try document.forEach(of: document.context.fetch(request)) { object in
                try element(
                    .object(
                        try ObjectRecord.members(
                            of: object, paths, noting: document.unreadable)))
            }
        }
    }
}

/// `quire load PATH FILE`
struct LoadVerb: DocumentVerb {
    static let name = "load"
    static let abstract = "Adds the objects of a dump."
    static let discussion = """
        Adds all objects in the output of dump, or none. The identifiers in it only link its objects to each other: the \
        new objects get their own. A reference to an object that is not in the file is an error. The whole dump is read \
        into memory; import reads files of any size.

        EXAMPLES:
          quire dump Library.quire > library.json
          quire load Copy.quire library.json
          quire dump Library.quire | quire load Copy.quire -
        """
    static let access = DocumentSession.Access.write

    @Argument(
        help: ArgumentHelp("The output of dump, or - for standard input.", valueName: "FILE"))
    var file: String

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        if file == "-" { try document.requireStandardInput() }
        let data =
            try file == "-" ? FileHandle.standardInput.readToEnd() ?? Data() : InputFile.read(file)
        let ids = try document.changingTogether { context in
            let name = file == "-" ? "standard input" : file
            let objects = try DumpReader(file: name, context: context).insert(data)
            try context.obtainPermanentIDs(for: objects)
            return objects.map(\.objectID)
        }
        return Reply { try ChangeReply("Inserted") { ids }.print($0) }
    }
}
