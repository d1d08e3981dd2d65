public import Foundation

extension EntityClass where Self: ManagedObject {
    /// The model's names of a key path's properties, first to last: `["author", "name"]` for `\Book.author?.name`.
    ///
    /// `nil` if it contains properties other than those marked `@Attribute` and `@Relationship`, and computed ones that return what
    /// ``ManagedObject`` reads by one key: `self["title", as: String.self] ?? ""`. Without `as:` the last in the key path can be read
    /// only. The identifier of an object is named `objectID`. A computed property is called on an object without a context, once;
    /// it must not need one.
    ///
    /// - Complexity: O(1) for a cached key path.
    public static func propertyNames(for keyPath: PartialKeyPath<Self>) -> [String]? {
        PropertyProbe.names(of: keyPath)
    }

    /// The names of ``propertyNames(for:)`` with dots between them, as requests and predicates accept them.
    public static func propertyName(for keyPath: PartialKeyPath<Self>) -> String? {
        propertyNames(for: keyPath)?.joined(separator: ".")
    }

    static func requireName(
        _ keyPath: PartialKeyPath<Self>, _ file: StaticString, _ line: UInt
    ) -> String {
        guard let name = propertyName(for: keyPath) else {
            fatalError(
                "\(keyPath) contains a property that is not in the model: mark each one @Attribute or @Relationship, or read it by its key with “as:”.",
                file: file, line: line)
        }
        return name
    }
}

extension SortOrdering {
    /// A sort ordering by a key path of a typed class.
    ///
    /// Traps if it contains something without a name; see ``EntityClass/propertyNames(for:)``.
    public init<Object: ManagedObject>(
        _ keyPath: PartialKeyPath<Object>, ascending: Bool = true,
        options: QueryComparison.Options = [], file: StaticString = #fileID, line: UInt = #line
    ) {
        self.init(Object.requireName(keyPath, file, line), ascending: ascending, options: options)
    }
}

extension QueryExpression {
    /// The value at a key path of a typed class.
    ///
    /// Traps if it contains something without a name; see ``EntityClass/propertyNames(for:)``.
    public static func key<Object: ManagedObject>(
        _ keyPath: PartialKeyPath<Object>, file: StaticString = #fileID, line: UInt = #line
    ) -> QueryExpression {
        .key(Object.requireName(keyPath, file, line))
    }
}

// MARK: - To-many relationships

/// Changes of a to-many relationship that read nothing and take constant time in its contents. Each maintains the inverse, and
/// traps if the object is of another context or was deleted.
extension EntityClass where Self: ManagedObject {
    /// Adds an object to a to-many relationship.
    public func add<Destination: ManagedObject>(
        _ object: Destination, to keyPath: KeyPath<Self, Set<Destination>>,
        file: StaticString = #fileID, line: UInt = #line
    ) {
        add(object, to: Self.requireName(keyPath, file, line), file: file, line: line)
    }

    /// Adds an object to an ordered to-many relationship, as the last.
    public func add<Destination: ManagedObject>(
        _ object: Destination, to keyPath: KeyPath<Self, [Destination]>,
        file: StaticString = #fileID, line: UInt = #line
    ) {
        add(object, to: Self.requireName(keyPath, file, line), file: file, line: line)
    }

    /// Inserts an object into an ordered to-many relationship at a position. A member already present moves.
    ///
    /// - Complexity: O(*n*).
    public func insert<Destination: ManagedObject>(
        _ object: Destination, into keyPath: KeyPath<Self, [Destination]>, at index: Int,
        file: StaticString = #fileID, line: UInt = #line
    ) {
        insert(
            object, into: Self.requireName(keyPath, file, line), at: index, file: file, line: line)
    }

    /// Removes an object from a to-many relationship.
    public func remove<Destination: ManagedObject>(
        _ object: Destination, from keyPath: KeyPath<Self, Set<Destination>>,
        file: StaticString = #fileID, line: UInt = #line
    ) {
        remove(object, from: Self.requireName(keyPath, file, line), file: file, line: line)
    }

    /// Removes an object from an ordered to-many relationship.
    public func remove<Destination: ManagedObject>(
        _ object: Destination, from keyPath: KeyPath<Self, [Destination]>,
        file: StaticString = #fileID, line: UInt = #line
    ) {
        remove(object, from: Self.requireName(keyPath, file, line), file: file, line: line)
    }
}

// MARK: - Declarations

extension EntityDeclaration.Property {
    /// Declares an attribute. For the macro `@Entity`; the parameters are those of `@Attribute`.
    public static func attribute<Value: AttributeRepresentable>(
        _ name: String, key: String? = nil, _ type: Value.Type, isOptional: Bool,
        default defaultValue: Value? = nil, minimum: Value? = nil, maximum: Value? = nil,
        length: (any RangeExpression<Int>)? = nil, regex: String? = nil, derived: String? = nil,
        renamingIdentifier: String? = nil, userInfo: [String: PropertyListValue] = [:],
        options: AttributeOptions = []
    ) -> Self {
        let composite = (Value.self as? any CompositeRepresentable.Type)?.compositeDeclaration
        return declare(
            name, key: key, types: Value.attributeTypes, isOptional: isOptional,
            defaultValue: composite == nil ? defaultValue?.attributeValue : nil, derived: derived,
            renamingIdentifier, userInfo, options, composite: composite,
            zero: Value.isNumberOrBoolean ? Value.missingValue.attributeValue : nil
        ) { attribute in
            attribute.minimum = minimum?.attributeValue ?? .null
            attribute.maximum = maximum?.attributeValue ?? .null
            attribute.regularExpression = regex
            if let length {
                let bounds = length.relative(to: 0..<Int.max)
                if bounds.lowerBound > 0 {
                    attribute.minimum = .integer(Int64(bounds.lowerBound))
                }
                if bounds.upperBound < Int.max {
                    attribute.maximum = .integer(Int64(bounds.upperBound - 1))
                }
            }
        }
    }

    /// Declares an attribute with raw values.
    public static func attribute<Value: RawRepresentable>(
        _ name: String, key: String? = nil, _ type: Value.Type, isOptional: Bool,
        default defaultValue: Value? = nil, derived: String? = nil,
        renamingIdentifier: String? = nil, userInfo: [String: PropertyListValue] = [:],
        options: AttributeOptions = []
    ) -> Self where Value.RawValue: AttributeRepresentable {
        declare(
            name, key: key, types: Value.RawValue.attributeTypes, isOptional: isOptional,
            defaultValue: defaultValue?.rawValue.attributeValue, derived: derived,
            renamingIdentifier, userInfo, options)
    }

    /// Explains that a property has a type that no attribute can have.
    @available(*, unavailable, message: "no attribute can have this type")
    @_disfavoredOverload
    public static func attribute<Value>(
        _ name: String, key: String? = nil, _ type: Value.Type, isOptional: Bool,
        default defaultValue: Value? = nil, minimum: Value? = nil, maximum: Value? = nil,
        length: (any RangeExpression<Int>)? = nil, regex: String? = nil, derived: String? = nil,
        renamingIdentifier: String? = nil, userInfo: [String: PropertyListValue] = [:],
        options: AttributeOptions = []
    ) -> Self {
        preconditionFailure("Never called: it is unavailable.")
    }

    private static func declare(
        _ name: String, key: String?, types: [AttributeType], isOptional: Bool,
        defaultValue: AttributeValue?, derived: String?, _ renamingIdentifier: String?,
        _ userInfo: [String: PropertyListValue], _ options: AttributeOptions,
        composite: CompositeDeclaration? = nil,
        zero: AttributeValue? = nil,
        _ adjust: (inout AttributeDescription) -> Void = { _ in }
    ) -> Self {
        var attribute = AttributeDescription(name: key ?? name, type: types.first ?? .undefined)
        // A derived value may be missing, and is then read as the type's missing value.
        attribute.isOptional =
            isOptional && !options.contains(.required) || derived != nil
        attribute.derivationExpression = derived
        attribute.defaultValue = defaultValue ?? .null
        attribute.compositeName = composite?.name
        attribute.renamingIdentifier = renamingIdentifier
        attribute.userInfo = userInfo
        attribute.isTransient = options.contains(.transient)
        attribute.allowsExternalBinaryDataStorage = options.contains(.externalStorage)
        attribute.allowsCloudEncryption = options.contains(.allowsCloudEncryption)
        attribute.preservesValueInHistoryOnDeletion =
            options.contains(.preservesValueInHistoryOnDeletion)
        adjust(&attribute)
        var defaultUnlessUnique = AttributeValue.null
        if let zero, !attribute.isOptional,
            !options.contains(.required), attribute.allows(zero)
        {
            defaultUnlessUnique = zero
        }
        return Self(
            name, types: types, description: attribute, composite: composite,
            defaultUnlessUnique: defaultUnlessUnique,
            isUnique: options.contains(.unique), isIndexed: options.contains(.indexed))
    }
}

extension AttributeDescription {
    /// Whether a value keeps the attribute's bounds.
    fileprivate func allows(_ value: AttributeValue) -> Bool {
        do {
            try validate(coerce(value))
            return true
        } catch {
            return false
        }
    }
}

extension AttributeRepresentable {
    /// Whether the type is one of those whose attributes Xcode's model editor gives 0 or false as default value.
    fileprivate static var isNumberOrBoolean: Bool {
        switch self {
        case is Int.Type, is Int16.Type, is Int32.Type, is Int64.Type, is Double.Type,
            is Float.Type, is Decimal.Type, is Bool.Type:
            true
        default: false
        }
    }
}

// MARK: - Predicates of Foundation

extension QueryPredicate {
    /// Translates a Foundation predicate about objects of a typed class.
    ///
    /// ```swift
    /// let era: Range<Int16> = 1790..<1820
    /// let predicate = #Predicate<Book> {
    ///     era.contains($0.year) && $0.author?.name.localizedStandardContains("austen") == true
    /// }
    /// try context.fetch(Book.self, where: predicate, sortBy: [SortDescriptor(\.title)])
    /// ```
    ///
    /// The store evaluates it as any other predicate; combine several with `.and([…])` and `.or([…])`. It may read properties
    /// marked `@Attribute` and `@Relationship`, follow relationships, compare, calculate, and test the elements of to-many
    /// relationships with `contains`, `allSatisfy`, `filter`, `count` and `isEmpty`. Captured values must be `Codable`, as
    /// Foundation requires, and of an attribute's type, an enumeration over one, a list or a range of these; instead of an
    /// object, capture its `objectID`.
    ///
    /// Its matches equal those of Foundation's evaluation, with few differences: strings compare by their bytes, not by
    /// canonical equivalence; custom types compare by their stored representation; a property without a value is missing, even
    /// if it reads as 0 or an empty string because it is not optional; and where Foundation traps, as `!` does on a missing
    /// value, the value is missing.
    ///
    /// - Throws: ``QuireError`` with code `unsupported`, quoting the part of the predicate that a query cannot express.
    public init<Object: ManagedObject>(_ predicate: Predicate<Object>) throws {
        self = try PredicateTranslation.condition(
            of: predicate,
            PredicateTranslation.Vocabulary(
                names: { PropertyProbe.names(of: $0) },
                value: { ($0 as? any AttributeRepresentable)?.attributeValue }))
    }
}

extension SortOrdering {
    /// Converts a Foundation sort descriptor for objects of a typed class.
    ///
    /// Strings are ordered by their bytes, which equals `.lexical` except for different strings that are canonically
    /// equivalent. Missing values are the smallest, as in Foundation.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the key path has no name (see
    ///   ``EntityClass/propertyNames(for:)``), or for other string comparisons.
    public init<Object: ManagedObject>(_ descriptor: SortDescriptor<Object>) throws {
        guard let keyPath = descriptor.keyPath, let names = PropertyProbe.names(of: keyPath) else {
            throw QuireError(
                .unsupported,
                "Objects cannot be sorted by “\(descriptor.keyPath?.debugDescription ?? "\(descriptor)")”: it "
                    + "contains a property of \(Object.self) that is not in the model."
            )
        }
        if let comparator = descriptor.stringComparator, comparator != .lexical {
            throw QuireError(
                .unsupported,
                "Objects cannot be sorted by “\(names.joined(separator: "."))” with \(comparator): a store supports "
                    + "only .lexical; use that, or SortOrdering with options.",
                subject: .init(property: names.joined(separator: ".")))
        }
        self.init(
            names.joined(separator: "."), ascending: descriptor.order == .forward)
    }
}
