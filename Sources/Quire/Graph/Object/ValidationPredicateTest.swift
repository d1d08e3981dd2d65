/// Tests a value that an attribute is to have on the predicates of its description. Stands in for the object, with that
/// value under the attribute's key.
struct ValidationPredicateTest: QuerySubject {
    let object: ManagedObject
    let slot: EntityLayout.Slot
    let value: AttributeValue

    var objectID: ManagedObjectID { object.objectID }
    var entity: EntityLayout { object.entity }
    var queryLayout: ModelLayout { object.queryLayout }

    func queryValue(forKey key: String) throws -> QueryValue {
        key == slot.name ? .value(value) : try object.queryValue(forKey: key)
    }

    /// - Throws: ``QuireError`` with code `validation` at the first predicate that the value does not satisfy, or
    ///   `invalidModel` if one cannot be read.
    func check(_ predicates: [ValidationPredicate]) throws {
        for predicate in predicates where try !isSatisfied(predicate) {
            let text =
                predicate.message ?? "does not satisfy “\(predicate.format)”"
            throw QuireError(
                .validation,
                "“\(slot.name)” of \(objectID.shortDescription) is \(value.display): it \(text).",
                subject: .init(
                    entity: entity.name, property: slot.name, object: objectID.uriRepresentation,
                    rule: .predicate, value: value.display))
        }
    }

    private func isSatisfied(_ predicate: ValidationPredicate) throws -> Bool {
        do {
            var request = FetchRequest(entity.name)
            request.predicate = replaced(in: try QueryPredicate(format: predicate.format))
            return try ResolvedQuery(request, in: queryLayout, allowsTransient: true).matches(self)
        } catch let error as QuireError {
            throw QuireError(
                .invalidModel,
                "The validation predicate “\(predicate.format)” of “\(entity.name).\(slot.name)” "
                    + "cannot be tested: \(error.message)",
                subject: .init(entity: entity.name, property: slot.name), underlying: error)
        }
    }

    // MARK: SELF is the value

    private func replaced(in predicate: QueryPredicate) -> QueryPredicate {
        predicate.mappingExpressions(replaced)
    }

    private func replaced(in expression: QueryExpression) -> QueryExpression {
        switch expression {
        case .evaluatedObject: return .key(slot.name)
        case .keyPath(let keys) where keys == ["length"] || keys == ["SELF", "length"]:
            guard case .string(let text) = value, entity.properties["length"] == nil else {
                return expression
            }
            return .constant(.integer(Int64(text.utf16.count)))
        default: return expression.mappingParts(replaced, replaced)
        }
    }
}
