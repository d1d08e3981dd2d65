internal import QuireModel
internal import QuireSystem

extension FetchComparison {
    /// Whether an object is another, or a constant one, or both are missing.
    func objectEquality(_ place: FetchScope.ObjectPlace) throws -> FetchCondition {
        switch (left, right) {
        case (_, .constant(let value)), (.constant(let value), _):
            guard case .objectID(let id) = value else {
                return place.isOptional ? FetchCondition("\(place.key) IS NULL") : .never
            }
            return isObject(place, id)
        case (.object(let left), .object(let right)):
            guard left.entity.rootNumber == right.entity.rootNumber else {
                // Objects of different tables are never the same, so both must be missing.
                guard left.isOptional, right.isOptional else { return .never }
                return FetchCondition("\(left.key) IS NULL").and(
                    FetchCondition("\(right.key) IS NULL"))
            }
            return FetchCondition("\(left.key) IS \(right.key)")
        default:
            throw QuireError(.invalidQuery, "An object cannot be compared with a value.")
        }
    }

    private func isObject(
        _ place: FetchScope.ObjectPlace, _ id: ManagedObjectID
    ) -> FetchCondition {
        guard isPossible(id, at: place) else { return .never }
        let key = FetchCondition(
            "\(place.key) = \(bind: .integer(id.primaryKey))", canBeNull: place.isOptional)
        guard place.entity.hasSubentities else { return key }
        let number = scope.context.schema.entity(number: id.entityNumber).storeNumber
        return key.and(
            FetchCondition(
                "\(scope.entityNumber(of: place)) = \(number)", canBeNull: place.isOptional))
    }

    /// Whether an object of this store and of a fitting entity is identified.
    private func isPossible(_ id: ManagedObjectID, at place: FetchScope.ObjectPlace) -> Bool {
        scope.context.store.owns(id) && place.entity.subtree.contains(id.entityNumber)
    }

    /// Whether an object is among constant ones.
    func objectMembership(
        _ place: FetchScope.ObjectPlace, _ elements: [AttributeValue]
    ) -> FetchCondition {
        var keysByEntity: [Int: [AttributeValue]] = [:]
        var includesMissing = false
        for element in elements {
            guard case .objectID(let id) = element else {
                includesMissing = true
                continue
            }
            guard isPossible(id, at: place) else { continue }
            keysByEntity[id.entityNumber, default: []].append(.integer(id.primaryKey))
        }
        var parts: [FetchCondition] = []
        for (entityNumber, keys) in keysByEntity.sorted(by: { $0.key < $1.key }) {
            var part = Self.isAmong(place.key, keys, canBeNull: place.isOptional)
            if place.entity.hasSubentities {
                let number = scope.context.schema.entity(number: entityNumber).storeNumber
                part = part.and(
                    FetchCondition(
                        "\(scope.entityNumber(of: place)) = \(number)",
                        canBeNull: place.isOptional))
            }
            parts.append(part)
        }
        if includesMissing, place.isOptional {
            parts.append(FetchCondition("\(place.key) IS NULL"))
        }
        return .any(of: parts)
    }
}
