import Foundation
internal import QuireModel
internal import QuireSystem

/// Decodes the file `elements` of Xcode 3's models, copies of which are in mapping models: a keyed archive of the modelling
/// tool's own objects.
///
/// These are not entities and attributes, but elements with *stereotypes*, which hold values by name, so each element is
/// first read as a dictionary.
struct LegacyModelDecoder: ModelArchiveDecoder {
    /// The class of the model in the archive.
    static let rootClassName = "XDPMModel"

    let archive: KeyedArchive
    var remarks: [String] = []
    var budget: Int

    init(_ archive: KeyedArchive) {
        self.archive = archive
        budget = archive.objectCount * 4
    }

    mutating func model() throws -> ManagedObjectModel {
        let top = archive.top["root"] ?? (archive.top.count == 1 ? archive.top.values.first : nil)
        guard let root = try archive.object(top), root.className == Self.rootClassName else {
            throw archive.damaged("it is not a model of Xcode 3")
        }
        let package = try required(archive.object(root["_xd_rootPackage"]), "the entities")
        var model = ManagedObjectModel()
        if let identifier = try archive.string(root["_modelVersionIdentifier"]), !identifier.isEmpty
        {
            model.versionIdentifiers = [identifier]
        }
        let classes = try archive.dictionary(package["XDBucketForClassesstorage"]) ?? []
        for (_, value) in classes {
            try spend()
            model.entities.append(try entity(required(archive.object(value), "an entity")))
        }
        model.entities.sort { $0.name < $1.name }
        model.configurations = try configurations(root["_configurationsByName"])
        return model
    }

    private func name(of element: KeyedArchive.Object) throws -> String {
        try required(archive.string(element["_name"]), "a name")
    }

    // MARK: - Values by name

    /// The values of an element's stereotypes by name.
    private mutating func values(of element: KeyedArchive.Object) throws -> [String: ArchiveValue] {
        var result: [String: ArchiveValue] = [:]
        for (_, value) in try archive.dictionary(element["XDBucketForStereotypesstorage"]) ?? [] {
            let stereotype = try required(archive.object(value), "values")
            let slots = try archive.dictionary(stereotype["XDBucketForOwnedAttributesstorage"])
            for (key, value) in slots ?? [] {
                try spend()
                let slot = try required(archive.object(value), "a value")
                result[try required(archive.string(key), "a name")] = slot["_default"]
            }
        }
        return result
    }

    private func text(_ value: ArchiveValue?) throws -> String? {
        try archive.string(value).flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The user info. Entries of Sync Services are dropped.
    private mutating func userInfo(_ value: ArchiveValue?) throws -> (
        values: [String: PropertyListValue], isSyncable: Bool
    ) {
        var values: [String: PropertyListValue] = [:]
        var isSyncable = true
        for (key, value) in try archive.namedValues(value) ?? [:] {
            if key.hasPrefix("com.apple.syncservices.") {
                if key.hasSuffix(".Syncable") {
                    isSyncable = (try? archive.string(value)) != "NO"
                }
                let remark = "Settings of Sync Services are omitted: the service no longer exists."
                if !remarks.contains(remark) { remarks.append(remark) }
            } else {
                do {
                    values[key] = try archive.propertyList(value, budget: &budget)
                } catch {
                    remarks.append("The user info “\(key)” is omitted: \(error)")
                }
            }
        }
        return (values, isSyncable)
    }

    // MARK: - Entities

    private mutating func entity(_ object: KeyedArchive.Object) throws -> EntityDescription {
        let values = try values(of: object)
        var entity = EntityDescription(name: try name(of: object))
        entity.managedObjectClassName = try text(values["XD_PSK_entityClassName"])
        entity.isAbstract =
            try archive.boolean(values["XD_PSK_isAbstract"])
            ?? archive.boolean(object["_isAbstract"]) ?? false
        for value in try archive.list(object["XDBucketForGeneralizationsstorage"]) ?? [] {
            let generalization = try required(archive.object(value), "a superentity")
            if let parent = try archive.object(generalization["_general"]) {
                entity.superentityName = try name(of: parent)
            }
        }
        entity.renamingIdentifier = try text(values["XD_PSK_elementID"])
        entity.versionHashModifier = try text(values["XD_PSK_versionHashModifier"])
        (entity.userInfo, entity.isSyncable) = try userInfo(values["XD_PSK_userInfo"])
        entity.compoundIndexes = try names(
            in: values["XDPMCompoundIndexes"], "A compound index of \(entity.name)")
        entity.uniquenessConstraints = try names(
            in: values["XDPMUniquenessConstraints"], "A uniqueness constraint of \(entity.name)")
        if !(try archive.list(values["XD_PSK_fetchRequestsArray"]) ?? []).isEmpty {
            remarks.append(
                "The fetch requests of \(entity.name) are omitted: their format in Xcode 3 is unknown."
            )
        }
        let properties = try archive.dictionary(object["XDBucketForOwnedAttributesstorage"]) ?? []
        for (_, value) in properties {
            try spend()
            let property = try required(archive.object(value), "a property")
            switch property.className {
            case "XDPMAttribute":
                entity.properties.append(.attribute(try attribute(property, of: entity.name)))
            case "XDPMRelationship":
                entity.properties.append(.relationship(try relationship(property, of: entity.name)))
            default:
                remarks.append(
                    "“\(entity.name).\(try name(of: property))” is a \(property.className) and is omitted."
                )
            }
        }
        entity.properties.sort { $0.name < $1.name }
        return entity
    }

    /// A name, given directly or as a named element.
    func name(_ value: ArchiveValue) throws -> String {
        if let object = try archive.objectIfAny(value), object["_name"] != nil {
            return try name(of: object)
        }
        return try required(archive.string(value), "a name")
    }

    private mutating func configurations(
        _ value: ArchiveValue?
    ) throws -> [ManagedObjectModel.Configuration] {
        var result: [ManagedObjectModel.Configuration] = []
        for (name, value) in try archive.namedValues(value) ?? [:] {
            do {
                let names = try (archive.list(value) ?? []).map(self.name).sorted()
                result.append(.init(name: name, entityNames: names))
            } catch {
                remarks.append("The configuration “\(name)” is omitted: \(error)")
            }
        }
        return result.sorted { $0.name < $1.name }
    }

    // MARK: - Properties

    private mutating func attribute(
        _ object: KeyedArchive.Object, of entity: String
    ) throws -> AttributeDescription {
        let name = try name(of: object)
        let values = try values(of: object)
        let code = try archive.integer(values["XD_PAttK_attributeType"]) ?? 0
        guard let type = AttributeType(rawValue: Int(code)) else {
            throw archive.damaged("“\(entity).\(name)” has an unknown type, \(code)")
        }
        var attribute = AttributeDescription(name: name, type: type)
        attribute.isOptional = try archive.boolean(values["XD_PPSK_isOptional"]) ?? false
        attribute.isTransient = try archive.boolean(values["XD_PPSK_isTransient"]) ?? false
        attribute.isIndexed = try archive.boolean(values["XD_PPSK_isIndexed"]) ?? false
        attribute.isIndexedBySpotlight =
            try archive.boolean(values["XD_PPSK_isSpotlightIndexed"]) ?? false
        attribute.isStoredInTruthFile =
            try archive.boolean(values["XD_PPSK_isStoredInTruthFile"]) ?? false
        attribute.allowsExternalBinaryDataStorage =
            try archive.boolean(values["XD_PAttK_allowsExternalBinaryDataStorage"]) ?? false
        attribute.valueTransformerName = try text(values["XD_PAttK_valueTransformerName"])
        attribute.regularExpression = try text(values["XD_PAttK_regularExpressionString"])
        attribute.renamingIdentifier = try text(values["XD_PPSK_elementID"])
        attribute.versionHashModifier = try text(values["XD_PPSK_versionHashModifier"])
        (attribute.userInfo, attribute.isSyncable) = try userInfo(values["XD_PPSK_userInfo"])
        let subject = "“\(entity).\(name)”"
        attribute.defaultValue = value(
            values["XD_PAttK_defaultValueAsString"] ?? values["XD_PAttK_defaultValue"], as: type,
            "default value of \(subject)")
        if type.hasRange {
            let bound = type == .string ? .integer64 : type
            attribute.minimum = value(
                values["XD_PAttK_minValueString"], as: bound, "minimum of \(subject)")
            attribute.maximum = value(
                values["XD_PAttK_maxValueString"], as: bound, "maximum of \(subject)")
        }
        return attribute
    }

    private mutating func value(
        _ value: ArchiveValue?, as type: AttributeType, _ subject: String
    ) -> AttributeValue {
        do {
            let scalar = AttributeValue(try archive.scalar(value))
            switch scalar {
            case .string(let text):
                if text.isEmpty && type != .string { return .null }
                if let number = type.number(fromTruth: text) {
                    remarks.append(
                        "The \(subject) is “\(text)”, which is read as \(number.display).")
                    return number
                }
                if let truth = type.truth(fromNumber: text) { return truth }
                return try AttributeValue(parsing: text, as: type)
            default: return try AttributeDescription(name: "", type: type).coerce(scalar)
            }
        } catch {
            remarks.append("The \(subject) cannot be read and is omitted: \(error)")
            return .null
        }
    }

    private mutating func relationship(
        _ object: KeyedArchive.Object, of entity: String
    ) throws -> RelationshipDescription {
        let name = try name(of: object)
        let subject = "“\(entity).\(name)”"
        let values = try values(of: object)
        guard let destination = try archive.object(values["XD_PRK_destination"]) else {
            throw archive.damaged("the relationship “\(name)” has no destination entity")
        }
        let inverse = try archive.object(values["XD_PRK_inverseRelationship"])
        var relationship = RelationshipDescription(
            name: name, destination: try self.name(of: destination),
            inverse: try inverse.map { try self.name(of: $0) })
        let most = try archive.integer(values["XD_PRK_maxCount"]) ?? 1
        relationship.isToMany = try archive.boolean(values["XD_PRK_isToMany"]) ?? (most != 1)
        if relationship.isToMany {
            relationship.maximumCount = CompiledModelDecoder.count(most, of: subject, &remarks)
        }
        relationship.minimumCount = CompiledModelDecoder.count(
            try archive.integer(values["XD_PRK_minCount"]) ?? 0, of: subject, &remarks)
        relationship.isOrdered = try archive.boolean(values["XD_PRK_ordered"]) ?? false
        relationship.isOptional = try archive.boolean(values["XD_PPSK_isOptional"]) ?? false
        relationship.isTransient = try archive.boolean(values["XD_PPSK_isTransient"]) ?? false
        relationship.isIndexed = try archive.boolean(values["XD_PPSK_isIndexed"]) ?? false
        relationship.isIndexedBySpotlight =
            try archive.boolean(values["XD_PPSK_isSpotlightIndexed"]) ?? false
        let rule = try archive.integer(values["XD_PRK_deleteRule"]) ?? 1
        relationship.deleteRule = CompiledModelDecoder.deleteRule(rule, of: subject, &remarks)
        relationship.renamingIdentifier = try text(values["XD_PPSK_elementID"])
        relationship.versionHashModifier = try text(values["XD_PPSK_versionHashModifier"])
        (relationship.userInfo, relationship.isSyncable) = try userInfo(values["XD_PPSK_userInfo"])
        return relationship
    }
}
