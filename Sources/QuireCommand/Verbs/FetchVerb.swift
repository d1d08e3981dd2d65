import ArgumentParser
import Quire

/// `quire fetch PATH ENTITY …`
struct FetchVerb: DocumentVerb {
    static let name = "fetch"
    static let abstract = "Prints the objects of an entity."
    static let discussion = """
        Without --columns every attribute is shown. A column may be a relationship, or a path such as \
        author.name.

        EXAMPLES:
          quire fetch Library.quire Book --where 'year < 1800' --sort -year
          quire fetch Library.quire Book --columns title,author.name --json
          quire fetch Library.quire Book --where 'author.name LIKE "J*"' --count
        """
    static let access = DocumentSession.Access.read

    @Argument(help: ArgumentHelp("The entity.", valueName: "ENTITY"))
    var entity: String

    @OptionGroup var filter: FilterOption

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Keys to sort by; one with - before it sorts downwards.", valueName: "k,-k"))
    var sort: String?

    @Option(help: ArgumentHelp("The greatest number of objects.", valueName: "N"))
    var limit: Int?

    @Option(help: ArgumentHelp("The number of objects to skip.", valueName: "N"))
    var offset: Int?

    @Option(help: ArgumentHelp("The keys or paths to show.", valueName: "a,b.c"))
    var columns: String?

    @Flag(help: "Print only how many objects there are.")
    var count = false

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
        if let offset, offset < 0 { throw ValidationError("--offset must not be negative.") }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let entity = try document.layout.requireEntity(named: entity)
        let paths = try columns.map { columns in
            try Self.names(in: columns).map {
                try PropertyPath($0, in: entity, of: document.layout)
            }
        }
        var request = FetchRequest(entity.name, predicate: try filter.predicate)
        request.sortOrderings = try orderings(in: entity, of: document.layout)
        request.fetchLimit = limit ?? 0
        request.fetchOffset = offset ?? 0
        if count {
            let count = try document.context.count(for: request)
            return Reply { output in
                if output.json {
                    try output.print(.object(["count": .integer(Int64(count))]), levels: 0)
                } else {
                    try output.print("\(count)")
                }
            }
        }
        let listing = ObjectListing(
            objects: try document.context.fetch(request), entity: entity, paths: paths,
            document: document)
        return Reply { output in
            if output.json { try listing.printJSON(output) } else { try listing.printTable(output) }
        }
    }

    private func orderings(
        in entity: EntityLayout, of layout: ModelLayout
    ) throws -> [SortOrdering] {
        try Self.names(in: sort ?? "").map { name in
            let path = name.hasPrefix("-") || name.hasPrefix("+") ? String(name.dropFirst()) : name
            _ = try PropertyPath(path, in: entity, of: layout)
            return SortOrdering(path, ascending: !name.hasPrefix("-"))
        }
    }

    private static func names(in list: String) -> [String] {
        list.split(separator: ",").map { $0.filter { $0 != " " } }
    }
}

/// The option that says which objects.
struct FilterOption: ParsableArguments {
    @Option(
        name: .customLong("where"), parsing: .unconditional,
        help: ArgumentHelp(
            "A condition in the predicate format language, such as 'year < 1900 AND author.name == "
                + "\"Jane Austen\"'.", valueName: "F"))
    var format: String?

    /// The condition, if one is given.
    ///
    /// - Throws: `QuireError` with code `invalidQuery`.
    var predicate: QueryPredicate? {
        get throws { try format.map { try QueryPredicate(format: $0) } }
    }
}
