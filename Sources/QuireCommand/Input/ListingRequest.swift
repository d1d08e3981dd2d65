import ArgumentParser
import Quire

/// A listing: objects with their properties, or rows of values that the store computes.
@MainActor
struct ListingRequest {
    var request: FetchRequest<ManagedObject>
    let entity: ResolvedEntity
    /// The columns of objects; `nil` for every attribute.
    private(set) var paths: [PropertyPath]?
    /// Whether only a number is asked for.
    let counts: Bool

    /// Puts options into a request.
    ///
    /// - Throws: `QuireError` with code `invalidQuery` or `unknownKey`.
    init(
        _ request: FetchRequest<ManagedObject>, _ listing: ListingOptions,
        _ grouping: GroupingOptions? = nil,
        in layout: ResolvedModel
    ) throws {
        entity = try layout.requireEntity(named: request.entityName)
        self.request = request
        counts = listing.count
        if let limit = listing.limit { self.request.fetchLimit = limit }
        if let offset = listing.offset { self.request.fetchOffset = offset }
        let isPlain = listing.columns == nil && !listing.count && grouping?.isGiven != true
        let defaults = isPlain ? try Defaults.current().columns(of: entity.name) : nil
        let columns = (listing.columns ?? defaults?.text).map { ExpressionList($0).parts }
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
            paths = try columns?.map { [entity] column in
                guard let defaults else { return try PropertyPath(column, in: entity, of: layout) }
                return try Self.naming(defaults.name) {
                    try PropertyPath(column, in: entity, of: layout)
                }
            }
        }
        if listing.count, self.request.resultType != .dictionaries {
            self.request.resultType = .count
        }
        // A fetch request of the model has an order of its own.
        guard let sort = listing.sort else { return }
        self.request.sortOrderings = try ExpressionList(sort).parts.map { part in
            let isMarked = part.hasPrefix("-") || part.hasPrefix("+")
            let text = ExpressionList.trimmed(isMarked ? String(part.dropFirst()) : part)
            if let match = text.wholeMatch(of: /(?i)(?<key>\S+)\s+(?<order>asc|desc)(ending)?/) {
                let sign = match.order.lowercased() == "desc" ? "-" : ""
                throw QuireError(
                    .invalidQuery, "“\(part)” is not a key; write --sort \(sign)\(match.key).")
            }
            if !ExpressionList.isKeyPath(text) {
                _ = try Self.naming("“\(text)” of --sort") { try QueryExpression(format: text) }
            } else if self.request.resultType != .dictionaries {
                _ = try PropertyPath(text, in: entity, of: layout)
            }
            return SortOrdering(text, ascending: !part.hasPrefix("-"))
        }
    }

    private nonisolated static func column(_ part: String) throws -> ExpressionDescription {
        let (text, name) = ExpressionList.named(part)
        if text == "*" {
            throw QuireError(
                .invalidQuery, "“*” is not a column; omit --columns to print all attributes.")
        }
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

    /// Runs the request.
    func reply(on document: DocumentSession) throws -> Reply {
        if request.resultType == .dictionaries {
            guard !document.context.hasChanges else {
                throw QuireError(
                    .invalidState,
                    "Computed columns and groups use saved values; save the changes first.")
            }
            let rows = try document.context.streamDictionaries(request)
            if counts {
                var count = 0
                try rows.forEach { _ in count += 1 }
                return Self.reply(count: count)
            }
            let listing = DictionaryListing(rows: rows, unreadable: document.unreadable)
            return Reply { try listing.print($0) }
        }
        if counts { return Self.reply(count: try document.context.count(for: request)) }
        var request = request
        request.readInBatches(for: paths ?? [])
        let listing = ObjectListing(
            objects: try document.context.fetch(request), entity: entity, paths: paths,
            document: document)
        return Reply { try listing.print($0) }
    }

    private static func reply(count: Int) -> Reply {
        Reply {
            try $0.printResult(levels: 0, ["\(count)"]) {
                .object(["count": .integer(Int64(count))])
            }
        }
    }
}

// MARK: - Options

/// The options for the columns and the order of objects.
struct ListingOptions: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Keys, expressions or column names to sort by; - before one sorts in descending order.",
            valueName: "k,-k"))
    var sort: String?

    @Option(help: ArgumentHelp("The maximum number of objects.", valueName: "N"))
    var limit: Int?

    @Option(help: ArgumentHelp("The number of objects to skip.", valueName: "N"))
    var offset: Int?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Keys, paths or expressions to print, such as 'title,count(notes) AS n'.",
            valueName: "a,b.c"))
    var columns: String?

    @Flag(help: "Print only the count.")
    var count = false

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
        if let offset, offset < 0 { throw ValidationError("--offset must not be negative.") }
    }

    /// Whether any is given.
    var isGiven: Bool {
        sort != nil || limit != nil || offset != nil || columns != nil || count
    }
}

/// The options that put objects into groups.
struct GroupingOptions: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Print one row per group of objects with equal values of these keys or expressions.",
            valueName: "a,b.c"))
    var groupBy: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The condition for groups, such as 'n > 3'.", valueName: "F")
    )
    var having: String?

    @Flag(help: "Print equal rows only once.")
    var distinct = false

    func validate() throws {
        if having != nil && groupBy == nil {
            throw ValidationError(
                "--having requires --group-by; use --where for conditions on objects.")
        }
    }

    /// Whether any is given.
    var isGiven: Bool { groupBy != nil || distinct }
}

/// The arguments of a query: an entity, a predicate, and columns.
struct QueryArguments: ParsableArguments {
    @Argument(help: ArgumentHelp("The entity.", valueName: "ENTITY"))
    var entity: String?

    @OptionGroup var filter: FilterOption
    @OptionGroup var template: TemplateOptions
    @OptionGroup var listing: ListingOptions
    @OptionGroup var grouping: GroupingOptions

    func validate() throws { try template.validate(entity: entity) }

    /// Makes a request of it.
    ///
    /// - Throws: `QuireError` with code `unknownEntity`, `unknownKey`, `notFound` or `invalidQuery`.
    @MainActor
    func listingRequest(in layout: ResolvedModel) throws -> ListingRequest {
        if var request = try template.request(of: layout.model) {
            let conditions = [request.predicate, try filter.predicate].compactMap(\.self)
            if !conditions.isEmpty { request.predicate = .and(conditions) }
            return try ListingRequest(request, listing, grouping, in: layout)
        }
        guard let name = entity else {
            let names = layout.entities.map(\.name).sorted().joined(separator: ", ")
            throw Failure.usage("Specify an entity: \(names).")
        }
        if let match = name.wholeMatch(of: /(?:.*\/)?(?<entity>\w+)\/p\d+/) {
            throw Failure.usage(
                "“\(name)” is an object, not an entity; write \(match.entity) --where 'SELF == \"\(name)\"'."
            )
        }
        let entity = try layout.requireEntity(named: name)
        let request = FetchRequest(entity.name, predicate: try filter.predicate)
        return try ListingRequest(request, listing, grouping, in: layout)
    }
}

// MARK: - Expressions

/// The parts of a list on the command line, such as `author.name, count(title) AS n`: separated by commas
/// outside of brackets and quotation marks.
struct ExpressionList {
    /// The parts, without spaces around them.
    let parts: [String]

    /// Splits a list.
    init(_ text: String) {
        var parts: [String] = []
        var part = ""
        var depth = 0
        var quote: Character?
        var isEscaped = false
        for character in text {
            if let open = quote {
                if !isEscaped, character == open { quote = nil }
                isEscaped = !isEscaped && character == "\\"
            } else {
                switch character {
                case "\"", "'": quote = character
                case "(", "{", "[": depth += 1
                case ")", "}", "]": depth -= 1
                case "," where depth <= 0:
                    parts.append(part)
                    part = ""
                    continue
                default: break
                }
            }
            part.append(character)
        }
        parts.append(part)
        self.parts = parts.map(Self.trimmed).filter { !$0.isEmpty }
    }

    static func trimmed(_ text: String) -> String {
        let start = text.drop { $0.isWhitespace }
        return String(start.reversed().drop { $0.isWhitespace }.reversed())
    }

    /// A part without `AS name` at its end, and that name.
    static func named(_ part: String) -> (expression: String, name: String?) {
        let pattern = /(?i)^(?<expression>.*\S)\s+AS\s+(?<name>[\p{L}_][\p{L}\p{N}_.]*)$/
        guard let match = part.wholeMatch(of: pattern.dotMatchesNewlines()) else {
            return (part, nil)
        }
        return (String(match.expression), String(match.name))
    }

    /// Whether a part is no more than a key path.
    static func isKeyPath(_ part: String) -> Bool {
        part.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "." }
    }
}

/// The options that run a fetch request of the model.
struct TemplateOptions: ParsableArguments {
    @Option(
        name: .customLong("template"),
        help: ArgumentHelp(
            "Run a fetch request of the model, with its condition, order and limit.",
            valueName: "NAME"))
    var name: String?

    @Option(
        name: .customLong("set"), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("A value for a variable of the fetch request.", valueName: "NAME=value"))
    var assignments: [String] = []

    func validate() throws {
        if name == nil && !assignments.isEmpty {
            throw ValidationError("--set requires --template.")
        }
    }

    /// - Throws: `ValidationError` if both a fetch request and an entity are given.
    func validate(entity: String?) throws {
        if name != nil && entity != nil {
            throw ValidationError("--template has its own entity; omit ENTITY.")
        }
    }

    /// The request with values for its variables; `nil` if none is asked for.
    ///
    /// - Throws: `QuireError` with code `notFound` if the model does not have it, or `invalidQuery` about its variables.
    func request(of model: ManagedObjectModel) throws -> FetchRequest<ManagedObject>? {
        guard let name else { return nil }
        let template = model.fetchRequestTemplates.first { $0.name == name }
        let values = try template.map { try TemplateArguments(assignments, for: $0).values } ?? [:]
        return FetchRequest(
            try model.fetchRequestFromTemplate(withName: name, substitutionVariables: values))
    }
}

// MARK: - Arguments of templates

/// The values that a fetch request template gets on the command line: `--set NAME=value`.
struct TemplateArguments {
    let values: [String: any QueryArgument]

    /// Reads values as their variables are used: where a variable is compared, as the type of what it is compared
    /// with; right of `IN` and `BETWEEN`, as a list separated by commas; in computations, as a number if it is one.
    ///
    /// - Throws: `ValidationError` if a word is no assignment or a name is given twice, or `QuireError` if the template
    ///   cannot be read.
    init(_ words: [String], for template: FetchRequestTemplate) throws {
        let predicate = try template.predicate
        var values: [String: any QueryArgument] = [:]
        for word in words {
            let assignment = try Assignment(word)
            let name =
                assignment.key.hasPrefix("$") ? String(assignment.key.dropFirst()) : assignment.key
            guard values[name] == nil else {
                throw ValidationError("--set specifies two values for \(name).")
            }
            let text = assignment.text
            switch predicate.flatMap({ Self.use(of: name, in: $0) }) {
            case _ where text.isEmpty: values[name] = AttributeValue.null
            case .list: values[name] = ExpressionList(text).parts
            case .computed:
                values[name] =
                    Int64(text).map { AttributeValue.integer($0) }
                    ?? Double(text).map { .double($0) } ?? .string(text)
            case .compared, nil: values[name] = text
            }
        }
        self.values = values
    }

    private enum Use { case compared, list, computed }

    private static func use(of name: String, in predicate: QueryPredicate) -> Use? {
        switch predicate {
        case .constant: nil
        case .and(let parts), .or(let parts):
            parts.lazy.compactMap { use(of: name, in: $0) }.first
        case .not(let inner): use(of: name, in: inner)
        case .comparison(let comparison): use(of: name, in: comparison)
        }
    }

    private static func use(of name: String, in comparison: QueryComparison) -> Use? {
        let variable = QueryExpression.variable(name)
        if comparison.right == variable {
            return [.in, .between].contains(comparison.operator) ? .list : .compared
        }
        if comparison.left == variable { return .compared }
        if case .collection(let elements) = comparison.right, elements.contains(variable) {
            return .compared
        }
        for side in [comparison.left, comparison.right] {
            if let use = use(of: name, in: side) { return use }
        }
        return nil
    }

    private static func use(of name: String, in expression: QueryExpression) -> Use? {
        switch expression {
        case .constant, .keyPath, .evaluatedObject: return nil
        case .variable(let found): return found == name ? .computed : nil
        case .collection(let parts), .function(_, let parts):
            return parts.lazy.compactMap { use(of: name, in: $0) }.first
        case .cast(let inner, _), .path(let inner, _): return use(of: name, in: inner)
        case .subquery(let collection, let variable, let condition):
            if let use = use(of: name, in: collection) { return use }
            return variable == name ? nil : use(of: name, in: condition)
        case .conditional(let condition, let first, let second):
            return use(of: name, in: condition) ?? use(of: name, in: first)
                ?? use(of: name, in: second)
        }
    }
}
