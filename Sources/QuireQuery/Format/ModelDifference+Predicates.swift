public import QuireModel

extension ModelDifference {
    /// Compares two models.
    ///
    /// Predicates are equal however they are written: `done == false` of a source is `done == NO` after it was compiled.
    public init(from old: ManagedObjectModel, to new: ManagedObjectModel) {
        self.init(comparing: old.withUniformPredicates, with: new.withUniformPredicates)
    }
}

extension ManagedObjectModel {
    /// The model with all predicates written as ``QueryPredicate`` describes them.
    fileprivate var withUniformPredicates: ManagedObjectModel {
        var model = self
        for index in model.fetchRequestTemplates.indices {
            model.fetchRequestTemplates[index].makePredicateUniform()
        }
        for index in model.entities.indices {
            for position in model.entities[index].properties.indices {
                model.entities[index].properties[position].makePredicatesUniform()
            }
            for position in model.entities[index].indexes.indices {
                model.entities[index].indexes[position].partialIndexPredicate =
                    model.entities[index].indexes[position].partialIndexPredicate.map(uniform)
            }
        }
        return model
    }
}

extension PropertyDescription {
    fileprivate mutating func makePredicatesUniform() {
        switch self {
        case .attribute(var attribute):
            for index in attribute.validationPredicates.indices {
                attribute.validationPredicates[index].format = uniform(
                    attribute.validationPredicates[index].format)
            }
            self = .attribute(attribute)
        case .fetched(var fetched):
            fetched.fetchRequest.makePredicateUniform()
            self = .fetched(fetched)
        case .relationship: break
        }
    }
}

extension FetchRequestTemplate {
    fileprivate mutating func makePredicateUniform() {
        predicateFormat = predicateFormat.map(uniform)
    }
}

/// A predicate's format as it is described; the format itself if it cannot be parsed.
private func uniform(_ format: String) -> String {
    (try? QueryPredicate(format: format).description) ?? format
}
