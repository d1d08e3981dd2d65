import Foundation

/// Makes a model of a compiled one: of the keyed archive in a `.mom` file, or in a store's `Z_MODELCACHE`.
///
/// Entities come in the order of their names, and so do the attributes, the relationships and the fetched properties of
/// each: archives keep no order. What a model here has no place for is left out and remarked upon.
struct CompiledModelDecoder {
    let archive: KeyedArchive
    /// What was left out: sentences.
    var remarks: [String] = []
    var composites: [CompositeDescription] = []
    /// How many more parts may be read. Most are objects of their own in what compilers write.
    private var budget: Int

    /// Reads a compiled model.
    ///
    /// - Parameters:
    ///   - data: The archive.
    ///   - name: What an error calls it.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    static func read(
        _ data: Data, name: String
    ) throws -> (model: ManagedObjectModel, remarks: [String]) {
        var decoder = CompiledModelDecoder(try KeyedArchive(data, name: name))
        let model = try decoder.model()
        return (model, decoder.remarks)
    }

    private init(_ archive: KeyedArchive) {
        self.archive = archive
        budget = archive.objectCount * 4
    }

    private mutating func model() throws -> ManagedObjectModel {
        let top = archive.top["root"] ?? (archive.top.count == 1 ? archive.top.values.first : nil)
        guard let root = try archive.object(top) else {
            throw archive.damaged("there is nothing in the archive")
        }
        guard root.className == "NSManagedObjectModel" else {
            throw archive.damaged("it is an archive of a \(root.className), not of a model")
        }
        var model = ManagedObjectModel()
        var objects: [(name: String, object: KeyedArchive.Object)] = []
        for (_, value) in try archive.dictionary(root["NSEntities"]) ?? [] {
            let object = try required(archive.object(value), "an entity")
            objects.append((try name(of: object), object))
        }
        objects.sort { $0.name < $1.name }
        let parents = try parentNames(of: objects)
        for (name, object) in objects {
            model.entities.append(try entity(object, name: name, parents: parents))
        }
        removeInherited(from: &model, parents: parents)
        model.composites = composites
        let templates = try archive.namedValues(root["NSFetchRequestTemplates"]) ?? [:]
        for (name, value) in templates.sorted(by: { $0.key < $1.key }) {
            let object = try required(archive.object(value), "a fetch request")
            if let template = try fetchRequest(object, name: name, of: "The template “\(name)”") {
                model.fetchRequestTemplates.append(template)
            }
        }
        model.configurations = try configurations(root["NSConfigurations"])
        model.versionIdentifiers = try (archive.list(root["NSVersionIdentifiers"]) ?? [])
            .compactMap { try archive.scalar($0) }
            .compactMap { if case .string(let text) = $0, !text.isEmpty { text } else { nil } }
            .sorted()
        return model
    }

    /// Counts a part that was read, so that shared objects do not make a small archive a large model.
    mutating func spend(_ count: Int = 1) throws {
        budget -= count
        if budget < 0 { throw archive.damaged("parts of the model share their parts") }
    }

    func required<T>(_ value: T?, _ wanted: String) throws -> T {
        guard let value else { throw archive.unexpected(wanted) }
        return value
    }

    /// A text; `nil` for an empty one.
    func text(_ value: ArchiveValue?) throws -> String? {
        try archive.string(value).flatMap { $0.isEmpty ? nil : $0 }
    }

    private func name(of entity: KeyedArchive.Object) throws -> String {
        try required(archive.string(entity["NSEntityName"]), "an entity's name")
    }

    // MARK: - Entities

    private func parentNames(
        of objects: [(name: String, object: KeyedArchive.Object)]
    ) throws -> [String: String] {
        var parents: [String: String] = [:]
        for (child, object) in objects {
            if let parent = try archive.object(object["NSSuperentity"]) {
                parents[child] = try name(of: parent)
            }
        }
        return parents
    }

    private mutating func entity(
        _ object: KeyedArchive.Object, name: String, parents: [String: String]
    ) throws -> EntityDescription {
        var entity = EntityDescription(name: name)
        entity.managedObjectClassName = try text(object["NSClassNameForEntity"])
        entity.isAbstract = try archive.boolean(object["NSIsAbstract"]) ?? false
        entity.superentityName = parents[name]
        entity.renamingIdentifier = try renaming(object, from: name)
        entity.versionHashModifier = try text(object["NSVersionHashModifier"])
        entity.userInfo = try userInfo(object)
        let properties = try archive.dictionary(object["NSProperties"]) ?? []
        try spend(properties.count)
        for (_, value) in properties {
            let property = try required(archive.object(value), "a property")
            if let property = try self.property(property, of: name) {
                entity.properties.append(property)
            }
        }
        entity.properties.sort { ($0.rank, $0.name) < ($1.rank, $1.name) }
        entity.uniquenessConstraints = try names(in: object["NSUniqueTuples"])
        entity.compoundIndexes = try names(in: object["NSCompoundIndexes"])
        for value in try archive.list(object["NSFetchIndexDescriptions"]) ?? [] {
            let index = try required(archive.object(value), "an index")
            if let index = try self.index(index, of: name) { entity.indexes.append(index) }
        }
        entity.removeMirroredIndexes()
        return entity
    }

    /// The name it had in an earlier version. Archives have the present one for none.
    func renaming(_ object: KeyedArchive.Object, from name: String) throws -> String? {
        try text(object["NSRenamingIdentifier"]).flatMap { $0 == name ? nil : $0 }
    }

    func userInfo(_ object: KeyedArchive.Object) throws -> [String: String] {
        var result: [String: String] = [:]
        for (key, value) in try archive.namedValues(object["NSUserInfo"]) ?? [:] {
            let value = AttributeValue(try archive.scalar(value))
            result[key] = if case .string(let text) = value { text } else { value.display }
        }
        return result
    }

    /// Lists of the names of properties, which old archives have as the properties themselves.
    private func names(in value: ArchiveValue?) throws -> [[String]] {
        try (archive.list(value) ?? []).map { list in
            try (archive.list(list) ?? []).map { element in
                if let object = try archive.objectIfAny(element), object["NSPropertyName"] != nil {
                    return try required(archive.string(object["NSPropertyName"]), "a name")
                }
                return try required(archive.string(element), "a name")
            }
        }
    }

    /// The model that a store carries repeats what an entity inherits.
    private func removeInherited(
        from model: inout ManagedObjectModel, parents: [String: String]
    ) {
        let own = Dictionary(
            model.entities.map { ($0.name, Set($0.properties.map(\.name))) },
            uniquingKeysWith: { first, _ in first })
        for index in model.entities.indices where model.entities[index].superentityName != nil {
            var inherited: Set<String> = []
            var seen: Set<String> = []
            var next = model.entities[index].superentityName
            while let name = next, seen.insert(name).inserted {
                inherited.formUnion(own[name] ?? [])
                next = parents[name]
            }
            model.entities[index].properties.removeAll { inherited.contains($0.name) }
        }
    }

    // MARK: - Configurations

    /// What frameworks call the configuration that all entities are in.
    private static let defaultConfiguration = "PF_DEFAULT_CONFIGURATION_NAME"

    private mutating func configurations(
        _ value: ArchiveValue?
    ) throws -> [ManagedObjectModel.Configuration] {
        var result: [ManagedObjectModel.Configuration] = []
        for (name, value) in try archive.namedValues(value) ?? [:]
        where name != Self.defaultConfiguration {
            let members = try archive.list(value) ?? []
            try spend(members.count)
            result.append(
                .init(
                    name: name,
                    entityNames: try members.map { member in
                        try self.name(of: required(archive.object(member), "an entity"))
                    }.sorted()))
        }
        return result.sorted { $0.name < $1.name }
    }
}

extension PropertyDescription {
    /// Attributes come first, then relationships.
    fileprivate var rank: Int {
        switch self {
        case .attribute: 0
        case .relationship: 1
        case .fetched: 2
        }
    }
}

extension EntityDescription {
    /// Takes out what compilers add to indexes: old forms of those that have the new one, and new forms, named after the
    /// property, of those that have the old one.
    fileprivate mutating func removeMirroredIndexes() {
        let single = indexes.filter { $0.elements.count == 1 && $0.elements[0].propertyName != nil }
        let named = Set(
            single.filter { $0.elements[0].propertyName != $0.name }
                .compactMap { $0.elements[0].propertyName })
        let lists = Set(indexes.map { $0.elements.compactMap(\.propertyName) })
        compoundIndexes.removeAll { lists.contains($0) }
        for position in properties.indices {
            switch properties[position] {
            case .attribute(var attribute) where attribute.isIndexed:
                attribute.isIndexed = !named.contains(attribute.name)
                properties[position] = .attribute(attribute)
            case .relationship(var relationship) where relationship.isIndexed:
                relationship.isIndexed = !named.contains(relationship.name)
                properties[position] = .relationship(relationship)
            default: break
            }
        }
        let indexed = Set(
            properties.compactMap { property -> String? in
                switch property {
                case .attribute(let attribute): attribute.isIndexed ? attribute.name : nil
                case .relationship(let relationship):
                    relationship.isIndexed ? relationship.name : nil
                case .fetched: nil
                }
            })
        indexes.removeAll { index in
            guard index.elements == [.init(propertyName: index.name)],
                index.partialIndexPredicate == nil
            else { return false }
            return named.contains(index.name) || indexed.contains(index.name)
        }
    }
}
