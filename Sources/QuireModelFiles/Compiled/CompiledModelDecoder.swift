import Foundation
internal import QuireModel
internal import QuireSystem

/// Decodes a compiled model: the keyed archive in a `.mom` file, or in a store's `Z_MODELCACHE`.
///
/// Entities are sorted by name, and so are the attributes, the relationships and the fetched properties of each: archives
/// keep no order. Unsupported parts are dropped with a remark, and so are invalid parts that stored data do not depend on;
/// decoding fails only if objects could not be read with the model.
struct CompiledModelDecoder: ModelArchiveDecoder {
    let archive: KeyedArchive
    /// Messages about dropped parts.
    var remarks: [String] = []
    var composites: [CompositeDescription] = []
    /// The names dropped from the current entity: ``EntityDescription/leftOutNames``.
    var leftOutNames: Set<String> = []
    /// Compilers mostly write each part as a separate object.
    var budget: Int
    /// The remaining number of user info values that may be read. SwiftData shares lists between many properties.
    private var userInfoBudget: Int

    init(_ archive: KeyedArchive) {
        self.archive = archive
        budget = archive.objectCount * 4
        userInfoBudget = 4096 + archive.objectCount * 16
    }

    mutating func model() throws -> ManagedObjectModel {
        let top = archive.top["root"] ?? (archive.top.count == 1 ? archive.top.values.first : nil)
        guard let root = try archive.object(top) else {
            throw archive.damaged("the archive is empty")
        }
        guard root.classNames.contains("NSManagedObjectModel") else {
            throw archive.damaged("it is an archive of a \(root.className), not of a model")
        }
        var model = ManagedObjectModel()
        var objects: [(name: String, object: KeyedArchive.Object)] = []
        for (_, value) in try archive.dictionary(root["NSEntities"]) ?? [] {
            let object = try required(archive.object(value), "an entity")
            objects.append((try name(of: object), object))
        }
        objects.sort { $0.name < $1.name }
        let inheritance = try Inheritance(of: objects, in: self)
        for (name, object) in objects {
            model.entities.append(try entity(object, name: name, inheritance))
        }
        model.composites = composites
        let templates = try archive.namedValues(root["NSFetchRequestTemplates"]) ?? [:]
        for (name, value) in templates.sorted(by: { $0.key < $1.key }) {
            let subject = "The template “\(name)”"
            guard let object = try? archive.object(value) else {
                remarks.append("\(subject) is not a fetch request and is omitted.")
                continue
            }
            if let template = try fetchRequest(object, name: name, of: subject) {
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

    /// A text; `nil` if empty.
    func text(_ value: ArchiveValue?) throws -> String? {
        try archive.string(value).flatMap { $0.isEmpty ? nil : $0 }
    }

    private func name(of entity: KeyedArchive.Object) throws -> String {
        try required(archive.string(entity["NSEntityName"]), "an entity's name")
    }

    // MARK: - Entities

    /// The inherited parts of entities. The model cached in a store repeats them in each.
    private struct Inheritance {
        /// The superentity of an entity.
        var parents: [String: String] = [:]
        /// The names of the properties in an entity.
        private var properties: [String: Set<String>] = [:]

        init(
            of objects: [(name: String, object: KeyedArchive.Object)],
            in decoder: CompiledModelDecoder
        ) throws {
            let archive = decoder.archive
            for (entity, object) in objects {
                if let parent = try archive.object(object["NSSuperentity"]) {
                    parents[entity] = try decoder.name(of: parent)
                }
            }
            let superentities = Set(parents.values)
            for (entity, object) in objects where superentities.contains(entity) {
                for (key, value) in try archive.dictionary(object["NSProperties"]) ?? [] {
                    let name = try decoder.name(ofProperty: value, key: key)
                    properties[entity, default: []].insert(name)
                }
            }
        }

        /// The names of the properties that an entity inherits.
        func inherited(by entity: String) -> Set<String> {
            var names: Set<String> = []
            var seen: Set<String> = [entity]
            var next = parents[entity]
            while let name = next, seen.insert(name).inserted {
                names.formUnion(properties[name] ?? [])
                next = parents[name]
            }
            return names
        }
    }

    /// The referenced property: direct, or by the proxy that denotes an inherited property in an entity.
    func property(_ value: ArchiveValue?) throws -> KeyedArchive.Object? {
        var found = try archive.object(value)
        for _ in 0..<8 {
            guard let object = found, object.className == "_NSPropertyDescriptionProxy" else {
                return found
            }
            found = try archive.object(object["NSUnderlyingProperty"])
        }
        throw archive.damaged("a property refers to itself")
    }

    private func name(ofProperty value: ArchiveValue, key: ArchiveValue) throws -> String {
        let object = try required(property(value), "a property")
        return try required(
            text(object["NSPropertyName"]) ?? archive.string(key), "a property's name")
    }

    private mutating func entity(
        _ object: KeyedArchive.Object, name: String, _ inheritance: Inheritance
    ) throws -> EntityDescription {
        var entity = EntityDescription(name: name)
        leftOutNames = []
        entity.managedObjectClassName = try text(object["NSClassNameForEntity"])
        entity.isAbstract = try archive.boolean(object["NSIsAbstract"]) ?? false
        entity.superentityName = inheritance.parents[name]
        entity.renamingIdentifier = try renaming(object, from: name)
        entity.versionHashModifier = try text(object["NSVersionHashModifier"])
        entity.userInfo = userInfo(object, of: "“\(name)”")
        let properties = try archive.dictionary(object["NSProperties"]) ?? []
        try spend(properties.count)
        let inherited = inheritance.inherited(by: name)
        for (key, value) in properties {
            let propertyName = try self.name(ofProperty: value, key: key)
            if inherited.contains(propertyName) { continue }
            let object = try required(property(value), "a property")
            if let property = try property(object, name: propertyName, of: name) {
                entity.properties.append(property)
            }
        }
        entity.properties.sort { ($0.rank, $0.name) < ($1.rank, $1.name) }
        let tuples = object["NSUniqueTuples"]
        entity.uniquenessConstraints = try names(in: tuples, "A uniqueness constraint of \(name)")
        if entity.uniquenessConstraints.count < (try archive.list(tuples)?.count ?? 0) {
            leftOutNames.insert("")
        }
        entity.compoundIndexes = try names(
            in: object["NSCompoundIndexes"], "A compound index of \(name)")
        for value in try archive.list(object["NSFetchIndexDescriptions"]) ?? [] {
            if let index = index(value, of: name) { entity.indexes.append(index) }
        }
        entity.removeMirroredIndexes()
        entity.leftOutNames = leftOutNames
        entity.takeLeftOutNames()
        return entity
    }

    /// The renaming identifier; `nil` if it is the present name, which archives store by default.
    func renaming(_ object: KeyedArchive.Object, from name: String) throws -> String? {
        try text(object["NSRenamingIdentifier"]).flatMap { $0 == name ? nil : $0 }
    }

    /// - Parameter subject: The object's name in remarks.
    mutating func userInfo(
        _ object: KeyedArchive.Object, of subject: String
    ) -> [String: PropertyListValue] {
        var result: [String: PropertyListValue] = [:]
        do {
            for (key, value) in try archive.namedValues(object["NSUserInfo"]) ?? [:] {
                do {
                    result[key] = try archive.propertyList(value, budget: &userInfoBudget)
                } catch {
                    remarks.append("The user info “\(key)” of \(subject) is omitted: \(error)")
                }
            }
        } catch {
            remarks.append("The user info of \(subject) is omitted: \(error)")
        }
        return result
    }

    /// The name of a property, which old archives have as the property itself.
    func name(_ value: ArchiveValue) throws -> String {
        if try archive.objectIfAny(value) != nil, let object = try property(value),
            object["NSPropertyName"] != nil
        {
            return try required(archive.string(object["NSPropertyName"]), "a name")
        }
        return try required(archive.string(value), "a name")
    }

    // MARK: - Configurations

    /// The frameworks' name of the configuration with all entities.
    private static let defaultConfiguration = "PF_DEFAULT_CONFIGURATION_NAME"

    private mutating func configurations(
        _ value: ArchiveValue?
    ) throws -> [ManagedObjectModel.Configuration] {
        var result: [ManagedObjectModel.Configuration] = []
        for (name, value) in try archive.namedValues(value) ?? [:]
        where name != Self.defaultConfiguration {
            let members = try archive.list(value) ?? []
            try spend(members.count)
            var names: [String] = []
            for member in members {
                if let entity = try? archive.object(member), let name = try? self.name(of: entity) {
                    names.append(name)
                } else {
                    remarks.append(
                        "The configuration “\(name)” has a member that is not an entity.")
                }
            }
            result.append(.init(name: name, entityNames: names.sorted()))
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
    /// Removes the duplicates that compilers add to indexes: old forms of new-style indexes, and new forms, named after the
    /// property, of old-style ones.
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
