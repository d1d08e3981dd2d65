/// An index in an ``Entity``.
///
/// ```swift
/// Index("byAuthorAndYear", on: "author", .descending("year"))
/// ```
public struct Index: Sendable {
    /// The description that is built.
    public var description: FetchIndexDescription

    /// Makes an index of properties, most significant first.
    public init(_ name: String, on elements: FetchIndexDescription.Element...) {
        description = FetchIndexDescription(name: name, elements: elements)
    }

    /// Indexes only objects that satisfy a predicate.
    public func `where`(_ predicate: String) -> Index {
        modified(self) { $0.description.partialIndexPredicate = predicate }
    }

    /// Indexes ranges in several dimensions, instead of sorting. For up to five attributes that are numbers or dates.
    public func rtree() -> Index { of(.rtree) }

    /// Indexes the words of texts, for `MATCHES TEXT`; see ``TextSearch``. For attributes of type string.
    ///
    /// This is an extension: Core Data does not know it. A model file keeps it in the entity's user info, after all
    /// other indexes.
    ///
    /// ```swift
    /// Index("byText", on: "title", "summary").fullText()
    /// ```
    public func fullText() -> Index { of(.fullText) }

    private func of(_ kind: FetchIndexDescription.Kind) -> Index {
        modified(self) {
            for position in $0.description.elements.indices {
                $0.description.elements[position].kind = kind
            }
        }
    }
}

extension FetchIndexDescription.Element: ExpressibleByStringLiteral {
    /// A property, small values first.
    public init(stringLiteral propertyName: String) { self.init(propertyName: propertyName) }

    /// A property, small values first.
    public static func ascending(_ propertyName: String) -> Self {
        Self(propertyName: propertyName)
    }

    /// A property, great values first.
    public static func descending(_ propertyName: String) -> Self {
        Self(propertyName: propertyName, isAscending: false)
    }

    /// An expression, small values first; `entity` stands for the object's entity.
    ///
    /// - Parameters:
    ///   - text: The expression.
    ///   - type: The type the expression has in a model file.
    public static func expression(_ text: String, type: String? = nil) -> Self {
        modified(Self(expression: text)) { $0.expressionType = type }
    }
}

/// A compound index in an ``Entity`` (of old models; new ones list an ``Index``).
public struct CompoundIndex: Sendable {
    /// The names of the properties, most significant first.
    public var propertyNames: [String]

    /// Makes an index of properties.
    public init(_ propertyNames: String...) { self.propertyNames = propertyNames }
}

/// A uniqueness constraint in an ``Entity``: no two objects share the values of the properties, taken together.
///
/// ```swift
/// Unique("firstName", "lastName")
/// ```
public struct Unique: Sendable {
    /// The names of the properties.
    public var propertyNames: [String]

    /// Makes a constraint of properties.
    public init(_ propertyNames: String...) { self.propertyNames = propertyNames }
}
