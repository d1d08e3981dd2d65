public import QuireModel
internal import QuireSystem

extension FetchRequestTemplate {
    /// The template's predicate, with its `$VARIABLES`; `nil` if it has none.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` if it cannot be parsed.
    public var predicate: QueryPredicate? {
        get throws { try predicateFormat.map { try QueryPredicate(format: $0) } }
    }

    /// The order, most significant first. Sort expressions are parsed, and may fail, only when fetching.
    public var sortOrderings: [SortOrdering] {
        get {
            sortKeys.map {
                SortOrdering(
                    $0.expression, ascending: $0.isAscending, options: .init(letters: $0.options))
            }
        }
        set {
            sortKeys = newValue.map {
                SortKey($0.keyPath, isAscending: $0.ascending, options: $0.options.letters)
            }
        }
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
            throw invalid("needs a value for \(missing.map { "$" + $0 }.joined(separator: ", ")).")
        }
        if let unknown = values.keys.sorted().first(where: { !variables.contains($0) }) {
            let advice = CloseNames.advice(
                for: "$" + unknown, among: variables.map { "$" + $0 }, "it has",
                none: "it has none")
            throw invalid("has no variable $\(unknown); \(advice)")
        }
        var request = try self.request
        request.predicate = request.predicate?.mappingExpressions { expression in
            expression.replacingVariables { values[$0]?.queryExpression ?? .variable($0) }
        }
        return request
    }

    /// The request, with the variables in its predicate.
    package var request: FetchSpecification {
        get throws {
            var request = FetchSpecification(
                entityName, predicate: try predicate, sortOrderings: sortOrderings)
            request.fetchLimit = fetchLimit
            request.fetchOffset = fetchOffset
            request.fetchBatchSize = fetchBatchSize
            request.relationshipKeyPathsForPrefetching = relationshipKeyPathsForPrefetching
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
                    "The fetch request template “\(name)” has the result type “\(text)”, which is not 0, 1, 2 or 4.",
                    entity: entityName)
            }
        }
    }

    private func invalid(_ problem: String) -> QuireError {
        QuireError(
            .invalidQuery, "The fetch request template “\(name)” \(problem)", entity: entityName)
    }
}

extension FetchRequestPart {
    /// Adds a sort order, less significant than those before it.
    ///
    /// ```swift
    /// FetchTemplate("newest", of: "Book").sorted(by: "year", ascending: false).sorted(by: "title").limit(10)
    /// ```
    ///
    /// - Parameter keyPath: A key path or an expression; see ``SortOrdering/keyPath``.
    public func sorted(
        by keyPath: String, ascending: Bool = true, options: QueryComparison.Options = []
    ) -> Self {
        sorted(by: SortOrdering(keyPath, ascending: ascending, options: options))
    }

    /// Adds sort orders, less significant than those before them.
    public func sorted(by orderings: SortOrdering...) -> Self {
        modified(self) { $0.request.sortOrderings += orderings }
    }
}

extension EntityDeclaration.Property {
    /// Declares a fetched property. For the macro `@Entity`; the parameters are those of `@FetchedProperty`.
    public static func fetched(
        _ name: String, key: String? = nil, _ destination: any EntityClass.Type,
        predicate: String? = nil, sortOrderings: [SortOrdering] = [], fetchLimit: Int = 0,
        fetchOffset: Int = 0, fetchBatchSize: Int = 0,
        relationshipKeyPathsForPrefetching: [String] = []
    ) -> Self {
        var request = FetchRequestTemplate(name: key ?? name, entityName: "")
        request.predicateFormat = predicate
        request.sortOrderings = sortOrderings
        request.fetchLimit = fetchLimit
        request.fetchOffset = fetchOffset
        request.fetchBatchSize = fetchBatchSize
        request.relationshipKeyPathsForPrefetching = relationshipKeyPathsForPrefetching
        return Self(name, to: destination, request: request)
    }
}

extension QueryComparison.Options {
    private static let lettersOfOptions: [(letter: Character, option: Self)] = [
        ("c", .caseInsensitive), ("d", .diacriticInsensitive), ("n", .normalized),
        ("l", .localized),
    ]

    /// The letters of the predicate format language: `cd`.
    fileprivate var letters: String {
        String(Self.lettersOfOptions.filter { contains($0.option) }.map(\.letter))
    }

    fileprivate init(letters: String) {
        self.init(Self.lettersOfOptions.filter { letters.contains($0.letter) }.map(\.option))
    }
}

extension ManagedObjectModel {
    /// The request of a template, with the variables in its predicate; `nil` if the template does not exist.
    ///
    /// - Throws: ``QuireError`` with code `invalidQuery` or `invalidModel` if the template cannot be parsed.
    public func fetchRequestTemplate(forName name: String) throws -> FetchSpecification? {
        try fetchRequestTemplates.first { $0.name == name }?.request
    }

    /// The request of a template, with its variables substituted.
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
            let advice = CloseNames.advice(
                for: name, among: fetchRequestTemplates.map(\.name), "its templates are",
                none: "it has none")
            throw QuireError(
                .notFound, "The model has no fetch request template “\(name)”; \(advice)")
        }
        return try template.request(substitutionVariables: substitutionVariables)
    }
}
