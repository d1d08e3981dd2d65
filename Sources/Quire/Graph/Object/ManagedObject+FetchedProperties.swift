internal import OrderedCollections

extension ManagedObject {
    /// The objects that a fetched property's request finds for this object.
    ///
    /// The request's predicate may use `$FETCH_SOURCE` for this object and `$FETCH_SOURCE.author.name` for what it has
    /// at a key path, `$FETCHED_PROPERTY.name` and `$FETCHED_PROPERTY.userInfo.KEY` for texts of the model. What was
    /// found is kept, whatever changes, until the object becomes a fault or its context is reset.
    ///
    /// - Complexity: One fetch the first time; O(*n*).
    /// - Throws: ``QuireError`` with code `unknownKey` if the key names no fetched property, `invalidQuery` if its
    ///   request makes no sense, or `storeUnavailable`.
    public final func fetchedObjects(_ key: String) throws -> [ManagedObject] {
        guard case .fetched(let property) = try property(key) else {
            throw QuireError(
                .unknownKey, "“\(key)” of \(entity.name) is no fetched property.",
                subject: .init(entity: entity.name, property: key))
        }
        guard let context = contextUnlessDiscarded else { return [] }
        context.willChange(self)
        if let found = context.fetchedPropertyValues[objectID.bits]?[key] {
            context.neighbours = OrderedSet(found)
            return found.map { context.object(with: $0) }
        }
        let objects = Array(try context.fetch(try request(of: property)))
        context.fetchedPropertyValues[objectID.bits, default: [:]][key] = objects.map(\.objectID)
        return objects
    }

    private final func request(of property: FetchedPropertyDescription) throws -> FetchRequest {
        let template = property.fetchRequest
        var request = FetchRequest(template.entityName)
        request.fetchLimit = template.fetchLimit
        request.includesSubentities = template.includesSubentities
        request.includesPendingChanges = template.includesPendingChanges
        request.predicate = try template.predicateFormat.map {
            try QueryPredicate(format: $0).mappingExpressions {
                try $0.replacingVariables { try value(ofVariable: $0, property) }
            }
        }
        return request
    }

    /// What a variable of a fetched property's request stands for.
    private final func value(
        ofVariable name: String, _ property: FetchedPropertyDescription
    ) throws -> QueryExpression {
        let keys = name.split(separator: ".").map(String.init)
        switch (keys.first, keys.dropFirst().first, keys.count) {
        case ("FETCH_SOURCE", _, 1): return .constant(.objectID(objectID))
        case ("FETCH_SOURCE", _, _): return try Self.value(of: self, at: keys.dropFirst())
        case ("FETCHED_PROPERTY", "name", 2): return .constant(.string(property.name))
        case ("FETCHED_PROPERTY", "userInfo", 3...):
            let value = property.userInfo[keys[2...].joined(separator: ".")]
            return .constant(value.map(AttributeValue.init) ?? .null)
        default:
            throw QuireError(
                .invalidQuery,
                "The request of the fetched property “\(entity.name).\(property.name)” uses "
                    + "$\(name); it can use $FETCH_SOURCE, $FETCH_SOURCE.KEY, $FETCHED_PROPERTY.name and "
                    + "$FETCHED_PROPERTY.userInfo.KEY.",
                subject: .init(entity: entity.name, property: property.name))
        }
    }

    /// What a key path of an object leads to; a collection if it goes through a to-many relationship.
    private static func value(
        of subject: any QuerySubject, at keys: ArraySlice<String>
    ) throws -> QueryExpression {
        guard let key = keys.first, key != QueryKeyPath.objectKey else {
            return .constant(.objectID(subject.objectID))
        }
        let rest = keys.dropFirst()
        switch try subject.queryValue(forKey: key) {
        case .value(.composite(let elements)) where !rest.isEmpty:
            return .constant(elements.element(at: rest.map { $0[...] }[...]))
        case .value(let value):
            guard rest.isEmpty || value.isNull else {
                throw QuireError(
                    .unknownKey,
                    "“\(key)” of \(subject.entity.name) is an attribute, so “\(rest.joined(separator: "."))” "
                        + "cannot follow it.",
                    subject: .init(entity: subject.entity.name, property: key))
            }
            return .constant(value)
        case .object(let object): return try value(of: object, at: rest)
        case .objects(let objects):
            return .collection(
                try objects.flatMap { object -> [QueryExpression] in
                    let value = try value(of: object, at: rest)
                    if case .collection(let inner) = value { return inner }
                    return [value]
                })
        }
    }
}

extension ManagedObjectContext {
    /// Replaces the temporary identifiers of objects that have just become permanent.
    func replaceIDsInFetchedProperties() {
        var replaced: [UInt64: [String: [ManagedObjectID]]] = [:]
        for (owner, values) in fetchedPropertyValues {
            let bits = identityMap.find(owner)?.objectID.bits ?? owner
            replaced[bits] = values.mapValues { ids in
                ids.map { id in
                    id.isTemporary ? identityMap.find(id.bits)?.objectID ?? id : id
                }
            }
        }
        fetchedPropertyValues = replaced
    }
}

extension AttributeValue {
    /// A value of user info; lists and dictionaries are no values of attributes.
    fileprivate init(_ value: PropertyListValue) {
        self =
            switch value {
            case .string(let text): .string(text)
            case .integer(let number): .integer(number)
            case .real(let number): .double(number)
            case .boolean(let truth): .boolean(truth)
            case .data(let data): .binary(data)
            case .date(let date): .date(date)
            case .array, .dictionary: .null
            }
    }
}
