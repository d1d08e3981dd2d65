import ArgumentParser
import Quire

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
