import Quire

/// What is to be listed: objects with properties of theirs, or rows of values that the store computes.
@MainActor
struct ListingRequest {
    var request: FetchRequest
    let entity: EntityLayout
    /// The columns of objects; `nil` for every attribute.
    private(set) var paths: [PropertyPath]?
    /// Whether only a number is asked for.
    let counts: Bool

    /// Puts options into a request.
    ///
    /// - Throws: `QuireError` with code `invalidQuery` or `unknownKey`.
    init(
        _ request: FetchRequest, _ listing: ListingOptions, _ grouping: GroupingOptions? = nil,
        in layout: ModelLayout
    ) throws {
        entity = try layout.requireEntity(named: request.entityName)
        self.request = request
        counts = listing.count
        if let limit = listing.limit { self.request.fetchLimit = limit }
        if let offset = listing.offset { self.request.fetchOffset = offset }
        let columns = listing.columns.map { ExpressionList($0).parts }
        let isComputed = columns?.contains { !ExpressionList.isKeyPath($0) } ?? false
        if grouping?.isGiven == true || isComputed {
            self.request.resultType = .dictionaries
            self.request.propertiesToFetch = try (columns ?? []).map(Self.column)
            self.request.propertiesToGroupBy =
                try ExpressionList(grouping?.groupBy ?? "").parts.map(Self.column)
            self.request.havingPredicate = try grouping?.having.map { format in
                try Self.naming("--having") { try QueryPredicate(format: format) }
            }
            self.request.returnsDistinctResults = grouping?.distinct ?? false
        } else {
            self.request.resultType = .objects
            paths = try columns?.map { try PropertyPath($0, in: entity, of: layout) }
        }
        self.request.sortOrderings = try ExpressionList(listing.sort ?? "").parts.map { part in
            let isMarked = part.hasPrefix("-") || part.hasPrefix("+")
            let text = ExpressionList.trimmed(isMarked ? String(part.dropFirst()) : part)
            if !ExpressionList.isKeyPath(text) {
                _ = try Self.naming("“\(text)” of --sort") { try QueryExpression(format: text) }
            } else if self.request.resultType != .dictionaries {
                _ = try PropertyPath(text, in: entity, of: layout)
            }
            return SortOrdering(text, ascending: !part.hasPrefix("-"))
        }
        if listing.count, self.request.resultType != .dictionaries {
            self.request.resultType = .count
        }
    }

    private nonisolated static func column(_ part: String) throws -> ExpressionDescription {
        let (text, name) = ExpressionList.named(part)
        if ExpressionList.isKeyPath(text) {
            var column = ExpressionDescription(text)
            if let name { column.name = name }
            return column
        }
        // As in SQL.
        let format = text.replacing(/(?i)^count\(\s*\*\s*\)$/) { _ in "count(SELF)" }
        let expression = try naming("the column “\(text)”") { try QueryExpression(format: format) }
        return ExpressionDescription(name ?? text, expression)
    }

    /// Says which text an error is about.
    private nonisolated static func naming<Result>(
        _ what: String, _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch var error as QuireError {
            error.message = "In \(what): \(error.message)"
            throw error
        }
    }

    // MARK: - Listing

    /// Finds what is asked for.
    func reply(on document: DocumentSession) throws -> Reply {
        if request.resultType == .dictionaries {
            guard !document.context.hasChanges else {
                throw QuireError(
                    .invalidState,
                    "Computed columns and groups are about what is saved; save the changes first.")
            }
            let rows = try document.context.streamDictionaries(request)
            if counts {
                var count = 0
                try rows.forEach { _ in count += 1 }
                return Self.reply(count: count)
            }
            let listing = DictionaryListing(rows: rows, unreadable: document.unreadable)
            return Reply { output in
                if output.json {
                    try listing.printJSON(output)
                } else {
                    try listing.printTable(output)
                }
            }
        }
        if counts { return Self.reply(count: try document.context.count(for: request)) }
        var request = request
        request.readInBatches(for: paths ?? [])
        let listing = ObjectListing(
            objects: try document.context.fetch(request), entity: entity, paths: paths,
            document: document)
        return Reply { output in
            if output.json { try listing.printJSON(output) } else { try listing.printTable(output) }
        }
    }

    private static func reply(count: Int) -> Reply {
        Reply { output in
            if output.json {
                try output.print(.object(["count": .integer(Int64(count))]), levels: 0)
            } else {
                try output.print("\(count)")
            }
        }
    }
}
