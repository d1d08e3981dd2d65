import ArgumentParser
import Quire

/// `quire model PATH [ENTITY]`
struct ModelVerb: DocumentVerb {
    static let name = "model"
    static let commandName = "show"
    static let abstract =
        "Prints the model: entities, attributes, relationships and fetch requests."
    static let discussion = """
        With --template it runs a fetch request of the model and prints the results as fetch does. \
        The type of a value is that of the attribute that its variable is compared with; lists are \
        separated by commas.

        EXAMPLES:
          quire model Library.quire
          quire model Library.quire Book --json
          quire model Library.quire --template booksBy --set 'NAME=Jane Austen' --sort year
        """
    static let access = DocumentSession.Access.read
    typealias Printing = RowOptions

    @Argument(help: ArgumentHelp("Only this entity.", valueName: "ENTITY"))
    var entity: String?

    @Option(help: ArgumentHelp("Run a fetch request of the model.", valueName: "NAME"))
    var template: String?

    @Option(
        name: .customLong("set"), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("A value for a variable of the fetch request.", valueName: "NAME=value"))
    var assignments: [String] = []

    @OptionGroup var listing: ListingOptions

    func validate() throws {
        if template == nil && (listing.isGiven || !assignments.isEmpty) {
            throw ValidationError("--set and the options of fetch go with --template.")
        }
        if template != nil && entity != nil {
            throw ValidationError("--template has an entity of its own; leave out the other.")
        }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        if let template { return try run(template, on: document) }
        let listing = try ModelListing(document.layout, entity: entity)
        return Reply { output in
            let isDefault = try output.format == Defaults.current().format
            guard output.json || output.format == .table || isDefault else {
                throw Failure(
                    sentence: "A model is printed as text or JSON; rows need --template.",
                    status: .usage)
            }
            try listing.print(output)
        }
    }

    /// Finds what a fetch request of the model finds.
    @MainActor
    private func run(_ template: String, on document: DocumentSession) throws -> Reply {
        let model = document.layout.model
        let values =
            try model.fetchRequestTemplates.first { $0.name == template }.map {
                try TemplateArguments(assignments, for: $0).values
            } ?? [:]
        let request = try model.fetchRequestFromTemplate(
            withName: template, substitutionVariables: values)
        return try ListingRequest(
            FetchRequest<ManagedObject>(request), listing, in: document.layout
        ).reply(on: document)
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
                throw ValidationError("--set gives two values for \(name).")
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
