import Foundation
internal import QuireModel
internal import QuireQuery
internal import QuireSystem

/// Encodes a compiled model: the inverse of ``CompiledModelDecoder``, with the classes and fields found in the archives of
/// Xcode and of Core Data's stores.
///
/// Parts without a known representation are dropped with a message.
struct CompiledModelEncoder {
    /// The destination of the archive.
    enum Form {
        /// A `.mom` file: entities list only their own properties.
        case file
        /// A store: entities list inherited properties too.
        case store
    }

    let model: ManagedObjectModel
    let form: Form
    var writer = KeyedArchiveWriter()
    /// Messages about dropped parts.
    var omissions: [String] = []
    let archiver = PredicateArchiver()
    private(set) var entityReferences: [String: ArchiveValue] = [:]
    private var propertyReferences: [String: [String: ArchiveValue]] = [:]
    let entities: [String: EntityDescription]
    let composites: [String: CompositeDescription]

    /// The archive of a valid model, and the messages about dropped parts.
    static func archive(
        of model: ManagedObjectModel, for form: Form
    ) -> (data: Data, omissions: [String]) {
        var encoder = CompiledModelEncoder(model: model, form: form)
        let root = encoder.addModel()
        return (encoder.writer.data(top: [.init("root", root)]), encoder.omissions)
    }

    private init(model: ManagedObjectModel, form: Form) {
        self.model = model
        self.form = form
        entities = Dictionary(
            model.entities.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        composites = Dictionary(
            model.composites.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    }

    // MARK: - The model

    private mutating func addModel() -> ArchiveValue {
        let root = writer.reserve()
        let sorted = model.entities.sorted { $0.name < $1.name }
        for entity in sorted {
            entityReferences[entity.name] = writer.reserve()
            for property in properties(of: entity) {
                propertyReferences[entity.name, default: [:]][property.name] = writer.reserve()
            }
        }
        for entity in sorted { define(entity, in: root) }
        let named = sorted.map { (name: $0.name, value: reference(to: $0.name)) }
        var fields: [ArchiveValue.Entry] = [
            .init("NSEntities", form == .file ? add(dictionary: named) : add(knownKeys: named))
        ]
        var templates: [(name: String, value: ArchiveValue)] = []
        for template in model.fetchRequestTemplates {
            let subject = "The fetch request “\(template.name)”"
            if let request = add(template, called: subject) {
                templates.append((template.name, request))
            }
        }
        fields.append(
            .init(
                "NSFetchRequestTemplates", templates.isEmpty ? .null : add(dictionary: templates)))
        let identifiers = model.versionIdentifiers.map { writer.add($0) }
        fields.append(.init("NSVersionIdentifiers", writer.add(set: identifiers)))
        if !model.configurations.isEmpty {
            var sets: [(name: String, value: ArchiveValue)] = []
            for configuration in model.configurations {
                let members = configuration.entityNames.map { reference(to: $0) }
                sets.append((configuration.name, writer.add(set: members)))
            }
            fields.append(.init("NSConfigurations", add(dictionary: sets)))
        }
        writer.define(root, as: ["NSManagedObjectModel", "NSObject"], fields)
        return root
    }

    func reference(to entity: String?) -> ArchiveValue {
        entity.flatMap { entityReferences[$0] } ?? .null
    }

    func reference(to property: String, of entity: String) -> ArchiveValue {
        propertyReferences[entity]?[property] ?? .null
    }

    /// The declaring entity of a property, searched from an entity upwards.
    func owner(of property: String, from entity: String) -> String? {
        var seen: Set<String> = []
        var next = entities[entity]
        while let current = next, seen.insert(current.name).inserted {
            if current.property(named: property) != nil { return current.name }
            next = current.superentityName.flatMap { entities[$0] }
        }
        return nil
    }

    /// An entity's properties in the archive.
    private func properties(of entity: EntityDescription) -> [PropertyDescription] {
        guard form == .store else { return entity.properties }
        var result: [PropertyDescription] = []
        var names: Set<String> = []
        var seen: Set<String> = []
        var next: EntityDescription? = entity
        while let current = next, seen.insert(current.name).inserted {
            result += current.properties.filter { names.insert($0.name).inserted }
            next = current.superentityName.flatMap { entities[$0] }
        }
        return result
    }

    // MARK: - Collections

    mutating func add(dictionary named: [(name: String, value: ArchiveValue)]) -> ArchiveValue {
        var pairs: [(key: ArchiveValue, value: ArchiveValue)] = []
        for (name, value) in named { pairs.append((writer.add(name), value)) }
        return writer.add(dictionary: pairs, mutable: true)
    }

    /// Adds a dictionary of Core Data's class for fixed key sets.
    private mutating func add(
        knownKeys named: [(name: String, value: ArchiveValue)]
    ) -> ArchiveValue {
        let keys = named.map { writer.add($0.name) }
        let keyList = writer.add(array: keys)
        let mapping = writer.add(
            ["NSKnownKeysMappingStrategy1", "NSKnownKeysMappingStrategy", "NSObject"],
            [
                .init("length", .integer(Int64(named.count))), .init("keys", keyList),
                .init("version", .integer(1)),
            ])
        let values = writer.add(array: named.map(\.value))
        let token = writer.add("__empty_slot_token_4c24_98dc_ac1e_b773__")
        return writer.add(
            [
                "NSKnownKeysDictionary1", "NSKnownKeysDictionary", "NSMutableDictionary",
                "NSDictionary", "NSObject",
            ],
            [
                .init("values", values), .init("searchMapping", mapping),
                .init("emptyToken", token), .init("version", .integer(1)),
            ])
    }

    /// Lists of names.
    private mutating func add(lists: [[String]]) -> ArchiveValue {
        var elements: [ArchiveValue] = []
        for list in lists {
            elements.append(writer.add(array: list.map { writer.add($0) }, mutable: true))
        }
        return writer.add(array: elements, mutable: true)
    }

    // MARK: - Entities

    private mutating func define(_ entity: EntityDescription, in root: ArchiveValue) {
        var named: [(name: String, value: ArchiveValue)] = []
        for property in properties(of: entity) {
            let place = reference(to: property.name, of: entity.name)
            if define(property, at: place, of: entity) { named.append((property.name, place)) }
        }
        let children = model.entities.filter { $0.superentityName == entity.name }
            .sorted { $0.name < $1.name }
        var fields: [ArchiveValue.Entry] = [
            .init("NSEntityName", writer.add(entity.name)),
            .init("NSClassNameForEntity", writer.add(entity.managedObjectClassName)),
            .init("NSManagedObjectModel", root),
            .init("NSSuperentity", reference(to: entity.superentityName)),
            .init(
                "NSSubentities",
                add(dictionary: children.map { ($0.name, reference(to: $0.name)) })),
            .init("NSProperties", add(dictionary: named)),
            .init("NSUserInfo", writer.add(propertyList: .dictionary(entity.userInfoInFile))),
            .init("NSVersionHashModifier", writer.add(entity.versionHashModifier)),
            .init("NSRenamingIdentifier", writer.add(entity.renamingIdentifier ?? entity.name)),
        ]
        if entity.isAbstract { fields.append(.init("NSIsAbstract", .boolean(true))) }
        if !entity.uniquenessConstraints.isEmpty {
            fields.append(.init("NSUniqueTuples", add(lists: entity.uniquenessConstraints)))
        }
        let indexes = addIndexes(of: entity)
        let lists = entity.compoundIndexes + mirroredLists(of: entity)
        if !indexes.isEmpty || !lists.isEmpty {
            fields.append(
                .init("NSFetchIndexDescriptions", writer.add(array: indexes, mutable: true)))
            fields.append(.init("NSCompoundIndexes", add(lists: lists)))
        }
        writer.define(
            reference(to: entity.name), as: ["NSEntityDescription", "NSObject"], fields)
    }

    /// The old form of compound indexes, which compilers add.
    private func mirroredLists(of entity: EntityDescription) -> [[String]] {
        entity.indexes.filter { !$0.isFullText && $0.elements.count > 1 }
            .map { $0.elements.compactMap(\.propertyName) }
            .filter { $0.count > 1 && !entity.compoundIndexes.contains($0) }
    }

    /// Runs an operation on the writer; on failure the objects added stay unreferenced, and the omission is recorded.
    mutating func attempt(
        _ subject: String, _ body: (inout Self) throws -> ArchiveValue
    ) -> ArchiveValue? {
        do { return try body(&self) } catch {
            omissions.append("\(subject) is omitted: \(error)")
            return nil
        }
    }
}

// MARK: - Request templates

/// The methods by which sort descriptors compare.
enum SortSelector: String, CaseIterable {
    case compare = "compare:"
    case caseInsensitiveCompare = "caseInsensitiveCompare:"
    case localizedCompare = "localizedCompare:"
    case localizedCaseInsensitiveCompare = "localizedCaseInsensitiveCompare:"
    case localizedStandardCompare = "localizedStandardCompare:"

    /// The options that compare alike, regardless of a language.
    var options: QueryComparison.Options {
        switch self {
        case .compare: []
        case .caseInsensitiveCompare: .caseInsensitive
        case .localizedCompare: .localized
        case .localizedCaseInsensitiveCompare: [.caseInsensitive, .localized]
        case .localizedStandardCompare: [.caseInsensitive, .diacriticInsensitive]
        }
    }
}

extension CompiledModelEncoder {
    // MARK: - Fetch requests

    /// Adds a fetch request; `nil` if it cannot be encoded, which is recorded.
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
        usual.sortKeys = template.sortKeys
        usual.fetchLimit = template.fetchLimit
        usual.fetchOffset = template.fetchOffset
        usual.fetchBatchSize = template.fetchBatchSize
        usual.relationshipKeyPathsForPrefetching = template.relationshipKeyPathsForPrefetching
        usual.resultType = template.resultType
        if usual != template {
            omissions.append(
                "\(subject) has options, such as whether sub-entities are found, which are omitted: their format "
                    + "in a compiled model is unknown.")
        }
        let order = addSortDescriptors(of: template, called: subject)
        let prefetching = template.relationshipKeyPathsForPrefetching.map { writer.add($0) }
        return writer.add(
            ["NSFetchRequest", "NSPersistentStoreRequest", "NSObject"],
            [
                .init("NSEntity", reference(to: template.entityName)),
                .init("NSPredicate", predicate),
                .init("NSFetchLimit", .integer(Int64(template.fetchLimit))),
                .init("NSFetchOffset", .integer(Int64(template.fetchOffset))),
                .init("NSBatchSize", .integer(Int64(template.fetchBatchSize))),
                .init(
                    "NSResultType", .integer(template.resultType.flatMap { Int64($0) } ?? 0)),
                .init("NSFetchRequestFlags", .integer(CompiledModelDecoder.usualFlags)),
                .init("NSHasFetchRequestFlags", .boolean(true)),
                .init("NSSortDescriptors", order.isEmpty ? .null : writer.add(array: order)),
                .init("NSValuesToFetch", .null),
                .init("NSValuesToGroupBy", .null), .init("NSHavingPredicate", .null),
                .init(
                    "NSRelationshipKeyPathsForPrefetching",
                    prefetching.isEmpty ? .null : writer.add(array: prefetching)),
            ])
    }

    /// Adds the sort descriptors that Foundation has a selector for, and records the rest.
    private mutating func addSortDescriptors(
        of template: FetchRequestTemplate, called subject: String
    ) -> [ArchiveValue] {
        template.sortOrderings.compactMap { ordering in
            let isKeyPath = ordering.keyPath.allSatisfy {
                $0.isLetter || $0.isNumber || $0 == "_" || $0 == "."
            }
            guard isKeyPath else {
                omissions.append(
                    "\(subject) sorts by “\(ordering.keyPath)”, which is omitted: a sort descriptor requires a key path."
                )
                return nil
            }
            var selector = SortSelector.allCases.first { $0.options == ordering.options }
            if selector == nil {
                selector = .compare
                omissions.append(
                    "\(subject) sorts by “\(ordering.keyPath)” with options that sort descriptors do not have; "
                        + "they are omitted.")
            }
            return writer.add(
                ["NSSortDescriptor", "NSObject"],
                [
                    .init("NSKey", writer.add(ordering.keyPath)),
                    .init("NSAscending", .boolean(ordering.ascending)),
                    .init("NSSelector", writer.add((selector ?? .compare).rawValue)),
                ])
        }
    }

    // MARK: - Indexes

    /// Adds an entity's indexes, including the new form of its properties' old-style ones.
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
                "\(subject) is omitted: full-text indexes are a Quire extension.")
            return nil
        }
        if let element = index.elements.first(where: { $0.propertyName == nil }) {
            omissions.append(
                "\(subject) is omitted: the format of an expression (“\(element.expression ?? "")”) "
                    + "in a compiled model is unknown.")
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
