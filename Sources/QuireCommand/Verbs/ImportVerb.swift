import ArgumentParser
import Foundation
import Quire

/// `quire import PATH ENTITY FILE`
struct ImportVerb: DocumentVerb {
    static let name = "import"
    static let abstract =
        "Adds an object for each row of a CSV file or each object of a JSON array."
    static let discussion = """
        If any row is invalid, none is added. The first line of a CSV file names the \
        columns; the members of a JSON object do. A column is an attribute, a relationship (identifiers), or \
        a path such as author.name: the related object with that name is found in the document or \
        in the file, or created. Further columns of \
        the same relationship, such as author.born, complete it and must not contradict it. Several values \
        for a to-many relationship are separated by ; in CSV and are an array in JSON. An empty field of a \
        CSV file leaves the attribute's default; "" is an empty text.

        The output of fetch --json and fetch --csv can be imported; its identifiers are not kept.

        EXAMPLES:
          quire import Library.quire Book books.csv
          quire import Notes.quire Post posts.json
        """
    static let access = DocumentSession.Access.write

    @Argument(help: ArgumentHelp("The entity.", valueName: "ENTITY"))
    var entity: String

    @Argument(help: ArgumentHelp("A file that ends in .csv or .json.", valueName: "FILE"))
    var file: String

    func validate() throws {
        if format == nil {
            throw ValidationError(
                "The type of “\(file)” is unknown; use a name that ends in .csv or .json.")
        }
    }

    private var format: ImportRows.Format? {
        let name = file.lowercased()
        return name.hasSuffix(".csv") ? .csv : name.hasSuffix(".json") ? .json : nil
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let entity = try document.layout.requireEntity(named: entity)
        let rereadable = try ProgressBar.showing("Reading \(file)", of: .bytes) {
            try InputFile.rereadable(file, progress: $0)
        }
        let rows = ImportRows(
            file: rereadable, format: format ?? .json, entity: entity, layout: document.layout)
        let result = try ProgressBar.showing("Importing \(file)", of: .rows) {
            try ObjectImport(document: document, progress: $0).run(rows)
        }
        return Reply { output in
            if output.json {
                // One by one, because there may be millions.
                func printList(_ ids: ObjectIDRuns) throws {
                    for (index, id) in ids.enumerated() {
                        try output.print(raw: index == 0 ? "" : ", ")
                        try output.print(raw: .string(id.uriRepresentation))
                    }
                }
                try output.print(raw: "{\"ids\": [")
                try printList(result.imported())
                try output.print(raw: "], \"related\": [")
                try printList(result.related())
                try output.print(raw: "]}\n")
                return
            }
            let imported = result.imported()
            var sentence = "Imported \(Count.of(imported.count, "object")) of \(entity.name)"
            let related = result.related().countsByEntity
                .sorted { $0.key < $1.key }.map { "\($0.value) of \($0.key)" }
            if !related.isEmpty { sentence += " and made \(related.joined(separator: ", "))" }
            try output.print(sentence + ".")
        }
    }
}
