import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

extension CompiledModelEncoder {
    // MARK: - Fetch requests

    /// Adds a fetch request; `nil` if it cannot be written, which is said then.
    mutating func add(
        _ template: FetchRequestTemplate, called subject: String
    ) -> ArchiveValue? {
        var predicate = ArchiveValue.null
        if let format = template.predicateFormat {
            let added = attempt(subject) { encoder in
                try encoder.archiver.add(QueryPredicate(format: format), to: &encoder.writer)
            }
            guard let added else { return nil }
            predicate = added
        }
        var usual = FetchRequestTemplate(name: template.name, entityName: template.entityName)
        usual.predicateFormat = template.predicateFormat
        usual.fetchLimit = template.fetchLimit
        usual.fetchBatchSize = template.fetchBatchSize
        usual.resultType = template.resultType
        if usual != template {
            omissions.append(
                "\(subject) has options, such as whether sub-entities are found, which are left out: how a compiled "
                    + "model keeps them is not known.")
        }
        return writer.add(
            ["NSFetchRequest", "NSPersistentStoreRequest", "NSObject"],
            [
                .init("NSEntity", reference(to: template.entityName)),
                .init("NSPredicate", predicate),
                .init("NSFetchLimit", .integer(Int64(template.fetchLimit))),
                .init("NSFetchOffset", .integer(0)),
                .init("NSBatchSize", .integer(Int64(template.fetchBatchSize))),
                .init(
                    "NSResultType", .integer(template.resultType.flatMap { Int64($0) } ?? 0)),
                .init("NSFetchRequestFlags", .integer(CompiledModelDecoder.usualFlags)),
                .init("NSHasFetchRequestFlags", .boolean(true)),
                .init("NSSortDescriptors", .null), .init("NSValuesToFetch", .null),
                .init("NSValuesToGroupBy", .null), .init("NSHavingPredicate", .null),
                .init("NSRelationshipKeyPathsForPrefetching", .null),
            ])
    }

    // MARK: - Indexes

    /// Adds an entity's indexes, and the new form of those that its properties have in the old one.
    mutating func addIndexes(of entity: EntityDescription) -> [ArchiveValue] {
        var result: [ArchiveValue] = []
        for property in entity.properties {
            let isIndexed =
                switch property {
                case .attribute(let attribute): attribute.isIndexed && !attribute.isTransient
                default: false
                }
            let isNamed = entity.indexes.contains { $0.name == property.name }
            guard isIndexed, !isNamed else { continue }
            let index = FetchIndexDescription(
                name: property.name, elements: [.init(propertyName: property.name)])
            if let added = add(index, of: entity) { result.append(added) }
        }
        for index in entity.indexes {
            if let added = add(index, of: entity) { result.append(added) }
        }
        return result
    }

    private mutating func add(
        _ index: FetchIndexDescription, of entity: EntityDescription
    ) -> ArchiveValue? {
        let subject = "The index “\(index.name)” of \(entity.name)"
        if index.isFullText {
            omissions.append(
                "\(subject) is left out: an index of words is an extension of Quire's.")
            return nil
        }
        if let element = index.elements.first(where: { $0.propertyName == nil }) {
            omissions.append(
                "\(subject) is left out: how a compiled model keeps an expression (“\(element.expression ?? "")”) "
                    + "is not known.")
            return nil
        }
        return attempt(subject) { encoder in
            var predicate = ArchiveValue.null
            if let format = index.partialIndexPredicate {
                predicate = try encoder.archiver.add(
                    QueryPredicate(format: format), to: &encoder.writer)
            }
            let place = encoder.writer.reserve()
            var elements: [ArchiveValue] = []
            for element in index.elements {
                let name = encoder.writer.add(element.propertyName)
                elements.append(
                    encoder.writer.add(
                        ["NSFetchIndexElementDescription", "NSObject"],
                        [
                            .init("NSPropertyName", name),
                            .init(
                                "NSFetchIndexElementType", .integer(Int64(element.kind.rawValue))),
                            .init("NSAscending", .boolean(element.isAscending)),
                            .init("NSFetchIndexDescription", place),
                        ]))
            }
            let name = encoder.writer.add(index.name)
            let list = encoder.writer.add(array: elements)
            encoder.writer.define(
                place, as: ["NSFetchIndexDescription", "NSObject"],
                [
                    .init("NSIndexName", name), .init("NSPartialIndexPredicate", predicate),
                    .init("NSIndexElements", list),
                    .init("NSEntity", encoder.reference(to: entity.name)),
                ])
            return place
        }
    }
}
