import ArgumentParser
import Foundation
import Quire

/// `quire import PATH ENTITY FILE`
struct ImportVerb: DocumentVerb {
    static let name = "import"
    static let abstract =
        "Adds or updates an object for each row of a CSV file or SQLite table, or each object of a JSON file."
    static let discussion = """
        If any row is invalid, nothing is imported. The columns are named by the first line of a CSV file, or \
        by the members of a JSON object. A column is an attribute, a relationship (identifiers), or a path such \
        as author.name: the related object with that name is found in the document or in the file, or created. \
        Further columns of the same relationship, such as author.born, complete that object and must not \
        contradict it. Several values for a to-many relationship are separated by ; in CSV and are an array in \
        JSON. An empty field of a CSV file leaves the attribute's default; "" is an empty text. An object in a \
        JSON object is a related object: the one with the same value of a unique attribute, or a new one.

        With --key, a row with the same keys as an object or an earlier row is an error, is skipped, or updates \
        that object, as --on-conflict specifies. An update changes only the attributes that have a value in the \
        row, and adds objects to to-many relationships.

        The output of fetch as JSON, JSON lines, CSV or TSV can be imported; its identifiers are not kept.

        EXAMPLES:
          quire import Library.quire Book books.csv
          quire import Notes.quire Post posts.json
          quire import Library.quire Book new.csv --key isbn --on-conflict update
          quire import Library.quire Book old.sqlite --table books --map name=title
          curl https://example.org/books.jsonl | quire import Library.quire Book - --format jsonl
        """
    static let access = DocumentSession.Access.write

    @Argument(help: ArgumentHelp("The entity.", valueName: "ENTITY"))
    var entity: String

    @Argument(
        help: ArgumentHelp(
            "A CSV, TSV, JSON or JSON lines file, a SQLite database, or - for standard input.",
            valueName: "FILE"))
    var file: String

    @OptionGroup var reading: RowFileOptions

    @Option(help: ArgumentHelp("The table of a SQLite database.", valueName: "NAME"))
    var table: String?

    @Option(
        help: ArgumentHelp(
            "Import a column as a property with another name; may be repeated.",
            valueName: "COLUMN=PROPERTY"))
    var map: [String] = []

    @Option(
        help: ArgumentHelp(
            "Attributes that identify an object; a row with the same values as an object is a conflict.",
            valueName: "a,b"))
    var key: String?

    @Option(
        help: ArgumentHelp(
            "How to resolve conflicts: fail (the default), skip the row, or update the object.",
            valueName: "ACTION"))
    var onConflict: ImportMatching.Conflict?

    @Flag(help: "Check the file and print what would be imported, without changing anything.")
    var dryRun = false

    func validate() throws {
        let format = reading.format(of: file)
        if table != nil, reading.isGiven || file == "-" {
            throw ValidationError(
                "--table requires a SQLite database file, without --format, --delimiter or --encoding."
            )
        }
        guard format != nil || table != nil else {
            throw ValidationError(
                DatabaseTables.isDatabase(file)
                    ? "Specify the table of the SQLite database with --table."
                    : file == "-"
                        ? "Specify the format of standard input with --format."
                        : "The type of “\(file)” is unknown; specify it with --format.")
        }
        try reading.validateDelimiter(for: file)
        if onConflict != nil, keys.isEmpty {
            throw ValidationError("--on-conflict requires --key.")
        }
        for word in map where word.first == "=" || !word.contains("=") || word.last == "=" {
            throw ValidationError("“\(word)” is not of the form COLUMN=PROPERTY.")
        }
    }

    private var keys: [String] {
        (key ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    /// The rows of the file.
    private func rows(of entity: ResolvedEntity, in layout: ResolvedModel) throws -> ImportRows {
        var rows = ImportRows(source: try source(), entity: entity, layout: layout)
        for word in map {
            let mark = word.lastIndex(of: "=") ?? word.endIndex
            rows.mappings[entity.name, default: [:]][String(word[..<mark])] =
                String(word[mark...].dropFirst())
        }
        return rows
    }

    private func source() throws -> ImportRows.Source {
        if let table {
            let database = try DatabaseTables(at: file)
            let found = try database.requireTable(named: table)
            return .table(database, found.name, found.columns.map { ($0.name, $0.name) })
        }
        return .file(
            try reading.open(file), reading.format(of: file) ?? .json,
            delimiter: reading.delimiterByte)
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let entity = try document.layout.requireEntity(named: entity)
        if file == "-" { try document.requireStandardInput() }
        let rows = try rows(of: entity, in: document.layout)
        let matching =
            keys.isEmpty ? nil : ImportMatching(keys: keys, conflict: onConflict ?? .fail)
        if dryRun {
            let counts = try ProgressBar.showing("Checking \(file)", of: .rows) {
                try ObjectImport(document: document, matching: matching, progress: $0).check(rows)
            }
            return Reply { output in
                try output.printResult(
                    levels: 0, [sentence("Would import", counts, entity)]
                ) {
                    .object([
                        "inserted": .integer(Int64(counts.inserted)),
                        "updated": .integer(Int64(counts.updated)),
                        "skipped": .integer(Int64(counts.skipped)),
                        "related": .object(counts.related.mapValues { .integer(Int64($0)) }),
                    ])
                }
            }
        }
        let result = try ProgressBar.showing("Importing \(file)", of: .rows) {
            do {
                return try ObjectImport(document: document, matching: matching, progress: $0)
                    .run(rows)
            } catch var error as QuireError
                where error.code == .constraintConflict && matching == nil
            {
                error.message += " To skip or update existing objects, specify --key."
                throw error
            }
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
                let counts = result.counts
                try output.print(
                    raw: "], \"skipped\": \(counts.skipped), \"updated\": \(counts.updated)}\n")
                return
            }
            try output.print(sentence("Imported", result.counts, entity))
        }
    }

    private func sentence(
        _ verb: String, _ counts: ObjectImport.Counts, _ entity: ResolvedEntity
    ) -> String {
        var parts = ["\(verb) \(Count.of(counts.inserted, "object")) of \(entity.name)"]
        if !counts.related.isEmpty {
            let related = counts.related.sorted { $0.key < $1.key }.map {
                "\($0.value) of \($0.key)"
            }
            parts[0] += " and \(dryRun ? "create" : "created") \(related.joined(separator: ", "))"
        }
        if key != nil {
            parts.append("\(dryRun ? "update" : "updated") \(counts.updated)")
            parts.append("\(dryRun ? "skip" : "skipped") \(counts.skipped)")
        }
        return parts.joined(separator: ", ") + "."
    }
}

// MARK: - Matching

/// Finds the rows of an import that are objects of the document already, or rows above them, by the values of attributes.
struct ImportMatching {
    /// The action for a row whose keys another object or row already has.
    enum Conflict: String, ExpressibleByArgument, CaseIterable {
        case fail, skip, update
    }

    /// The owner of the values of the keys.
    enum Owner {
        case object(ManagedObjectID)
        /// A row of the file, by its index.
        case row(Int, ResolvedEntity, place: String)
        /// Several objects.
        case several
    }

    /// The attributes that identify an object.
    let keys: [String]
    let conflict: Conflict
    /// Whether rows without a match are inserted.
    var insertsOthers = true

    /// The objects of an entity, by the values of the keys.
    ///
    /// - Complexity: O(*n*) in the objects of the entity, which are all read; their keys are in memory.
    /// - Throws: `QuireError` with code `unknownKey`, or `invalidValue` if a key is not an attribute that can be compared.
    @MainActor
    func objects(
        of entity: ResolvedEntity, in document: DocumentSession
    ) throws -> [[AttributeValue]: Owner] {
        for key in keys {
            guard case .attribute(let slot) = try entity.requireProperty(key),
                let attribute = entity.slots[slot].attribute, attribute.type != .binary
            else {
                throw QuireError(
                    .invalidValue,
                    "“\(key)” of \(entity.name) cannot be a key; specify attributes that are not binary data.",
                    entity: entity.name, property: key)
            }
        }
        var owners: [[AttributeValue]: Owner] = [:]
        var request = FetchRequest<ManagedObject>(entity.name)
        request.readInBatches(for: [])
        try document.forEach(of: document.context.fetch(request)) { object in
            let values = try keys.map { try object.attributeValue(forKey: $0) }
            if values.contains(where: \.isNull) { return }
            owners[values] = owners[values] == nil ? .object(object.objectID) : .several
        }
        return owners
    }

    /// The values of the keys in a row.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if one is missing.
    func values(of row: ImportRow) throws -> [AttributeValue] {
        try keys.map { key in
            guard let value = row.attributes[key], !value.isNull else {
                throw ImportRow.locate(
                    QuireError(
                        .invalidValue, "--key requires a value in every row.",
                        entity: row.entity.name, property: key),
                    row.place, column: key)
            }
            return try row.coerce(value, for: key)
        }
    }

    /// The error for a row that conflicts, or that matches several objects.
    func conflictError(_ row: ImportRow, _ values: [AttributeValue], _ owner: Owner) -> any Error {
        let shown = zip(keys, values).map { key, value in
            "\(key) “\(PrintedValue.attribute(value, .undefined).text)”"
        }.joined(separator: " and ")
        let message =
            switch owner {
            case .object(let id):
                "\(id.shortDescription) already has \(shown); use --on-conflict skip or update."
            case .row(_, _, let place):
                "\(place) already has \(shown); use --on-conflict skip or update."
            case .several:
                "Several \(row.entity.name) objects have \(shown), so none can be updated."
            }
        return ImportRow.locate(
            QuireError(.invalidValue, message, entity: row.entity.name), row.place)
    }
}
