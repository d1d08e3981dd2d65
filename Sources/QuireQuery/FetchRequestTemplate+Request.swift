public import QuireModel
internal import QuireSystem

extension FetchRequestTemplate {
    /// The template's predicate, with its `$VARIABLES`; `nil` if it has none.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if it cannot be parsed.
    public var predicate: QueryPredicate? {
        get throws { try predicateFormat.map { try QueryPredicate(format: $0) } }
    }

    /// The names of the predicate's variables, in the order in which they appear.
    ///
    /// - Throws: As ``predicate``.
    public var variables: [String] {
        get throws {
            var names: [String] = []
            _ = try predicate?.mappingExpressions { expression in
                expression.replacingVariables { name in
                    if !names.contains(name) { names.append(name) }
                    return .variable(name)
                }
            }
            return names
        }
    }

    /// The request with its variables substituted.
    ///
    /// A value is converted to the type of the other operand, as everywhere in predicates; lists are allowed for `IN` and
    /// `BETWEEN`.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery`, naming the variables without a value, or the values without a
    ///   variable.
    public func request(
        substitutionVariables values: [String: any QueryArgument]
    ) throws -> FetchSpecification {
        let variables = try variables
        let missing = variables.filter { values[$0] == nil }
        guard missing.isEmpty else {
            throw invalid("needs a value for \(Self.list(missing))")
        }
        if let unknown = values.keys.sorted().first(where: { !variables.contains($0) }) {
            let known = variables.isEmpty ? "it has none" : "it has \(Self.list(variables))"
            throw invalid("has no variable $\(unknown); \(known)")
        }
        var request = try self.request
        request.predicate = request.predicate?.mappingExpressions { expression in
            expression.replacingVariables { values[$0]?.queryExpression ?? .variable($0) }
        }
        return request
    }

    /// The request, with the variables in its predicate.
    fileprivate var request: FetchSpecification {
        get throws {
            var request = FetchSpecification(entityName, predicate: try predicate)
            request.fetchLimit = fetchLimit
            request.fetchBatchSize = fetchBatchSize
            request.includesSubentities = includesSubentities
            request.includesPropertyValues = includesPropertyValues
            request.includesPendingChanges = includesPendingChanges
            request.returnsDistinctResults = returnsDistinctResults
            request.resultType = try fetchResultType
            return request
        }
    }

    /// The result type, stored as Core Data's number in model files.
    private var fetchResultType: FetchSpecification.ResultType {
        get throws {
            switch resultType {
            case nil, "0": return .objects
            case "1": return .objectIDs
            case "2": return .dictionaries
            case "4": return .count
            case .some(let text):
                throw QuireError(
                    .invalidModel,
                    "The fetch request template “\(name)” has the result type “\(text)”, which is none of 0, 1, 2 and 4.",
                    subject: .init(entity: entityName))
            }
        }
    }

    private static func list(_ names: [String]) -> String {
        names.map { "$" + $0 }.joined(separator: ", ")
    }

    private func invalid(_ problem: String) -> QuireError {
        QuireError(
            .invalidQuery, "The fetch request template “\(name)” \(problem).",
            subject: .init(entity: entityName))
    }
}

extension ManagedObjectModel {
    /// The request of a template, with the variables in its predicate; `nil` if the template does not exist.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` or `invalidModel` if the template cannot be parsed.
    public func fetchRequestTemplate(forName name: String) throws -> FetchSpecification? {
        try fetchRequestTemplates.first { $0.name == name }?.request
    }

    /// The request of a template, with its variables substituted. It has no order; set one.
    ///
    /// ```swift
    /// let request = try model.fetchRequestFromTemplate(
    ///     withName: "booksBy", substitutionVariables: ["NAME": "Jane Austen"])
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the template does not exist, otherwise as
    ///   ``FetchRequestTemplate/request(substitutionVariables:)``.
    public func fetchRequestFromTemplate(
        withName name: String, substitutionVariables: [String: any QueryArgument] = [:]
    ) throws -> FetchSpecification {
        guard let template = fetchRequestTemplates.first(where: { $0.name == name }) else {
            let names = fetchRequestTemplates.map(\.name)
            let close = CloseNames.of(name, among: names)
            let advice =
                names.isEmpty
                ? "it has none"
                : close.isEmpty
                    ? "there are: \(names.joined(separator: ", "))"
                    : "did you mean “\(close[0])”?"
            throw QuireError(
                .notFound,
                "The model has no fetch request template “\(name)”; \(advice)\(close.isEmpty ? "." : "")"
            )
        }
        return try template.request(substitutionVariables: substitutionVariables)
    }
}
