import Foundation

/// The differences between two models, or two versions of one.
///
/// ```swift
/// let difference = ModelDifference(from: old, to: new)
/// for change in difference.changes { print(change) }
/// ```
///
/// Entities and properties are matched by renaming identifier, else by name.
public struct ModelDifference: Sendable, Hashable {
    /// The kind of a difference.
    public enum Kind: String, Sendable, Hashable {
        /// Present in the second model only.
        case added
        /// Present in the first model only.
        case removed
        /// Present in both, with differences.
        case changed
    }

    /// A differing part of a model.
    public struct Change: Sendable, Hashable {
        /// The kind of the change.
        public var kind: Kind
        /// The entity's name in the second model, or in the first if it is removed; `nil` for parts outside entities.
        public var entity: String?
        /// The property's name, likewise; `nil` for the entity itself.
        public var property: String?
        /// The kind of the part: `entity`, `attribute`, `relationship`, `fetched property`, `fetch request`,
        /// `configuration`, `composite` or `model`.
        public var noun: String
        /// The name in the first model, if it differs.
        public var formerName: String?
        /// The differences, each as `what: before → after`.
        public var details: [String]
    }

    /// The differences, sorted by entity name, the entity itself first.
    public let changes: [Change]
    /// Whether the stored data differs, so a store of the first model must be migrated to the second.
    public let changesStores: Bool

    /// Compares two models, predicates as texts; public as `init(from:to:)`, in a higher layer that parses them.
    package init(comparing old: ManagedObjectModel, with new: ManagedObjectModel) {
        var comparison = ModelComparison(old: old, new: new)
        changes = comparison.run()
        changesStores = old.entityVersionHashes() != new.entityVersionHashes()
    }
}

extension ModelDifference.Change: CustomStringConvertible {
    /// The change in one line, as `~ attribute Book.title (was name): type string → integer16`.
    public var description: String {
        let sign =
            switch kind {
            case .added: "+"
            case .removed: "-"
            case .changed: "~"
            }
        let name = [entity, property].compactMap { $0 }.joined(separator: ".")
        let former = formerName.map { " (was \($0))" } ?? ""
        let rest = details.isEmpty ? "" : ": " + details.joined(separator: "; ")
        return [sign, noun, name].filter { !$0.isEmpty }.joined(separator: " ") + former + rest
    }
}

/// Compares two models part by part.
private struct ModelComparison {
    typealias Change = ModelDifference.Change

    let old: ManagedObjectModel
    let new: ManagedObjectModel
    private(set) var changes: [Change] = []

    mutating func run() -> [Change] {
        var details = Details()
        details.add(
            "version", old.versionIdentifiers.joined(separator: ", "),
            new.versionIdentifiers.joined(separator: ", "))
        details.add("used with CloudKit", old.usedWithCloudKit, new.usedWithCloudKit)
        details.add("used with SwiftData", old.usedWithSwiftData, new.usedWithSwiftData)
        if !details.lines.isEmpty {
            changes.append(.init(kind: .changed, noun: "model", details: details.lines))
        }
        compareEntities()
        compareNamed(old.fetchRequestTemplates, new.fetchRequestTemplates, \.name, "fetch request")
        compareNamed(old.configurations, new.configurations, \.name, "configuration")
        compareNamed(old.composites, new.composites, \.name, "composite")
        return changes
    }

    // MARK: - Pairs

    /// The old part for each new one, by renaming identifier or name.
    private func pairs<Part>(
        _ old: [Part], _ new: [Part], name: (Part) -> String, renaming: (Part) -> String?
    ) -> (pairs: [(old: Part?, new: Part)], removed: [Part]) {
        var left = Dictionary(old.map { (name($0), $0) }, uniquingKeysWith: { first, _ in first })
        let formerNames = Dictionary(
            old.map { (renaming($0) ?? name($0), name($0)) },
            uniquingKeysWith: { first, _ in first })
        var found: [String: Part] = [:]
        // Explicit renaming identifiers take precedence.
        for part in new where renaming(part) != nil {
            let key = renaming(part) ?? ""
            let former = formerNames[key] ?? key
            if let match = left.removeValue(forKey: former) { found[name(part)] = match }
        }
        for part in new where found[name(part)] == nil {
            let key = name(part)
            if let match = left.removeValue(forKey: key) { found[key] = match }
        }
        return (
            new.sorted { name($0) < name($1) }.map { (found[name($0)], $0) },
            left.values.sorted { name($0) < name($1) }
        )
    }

    private mutating func compareNamed<Part: Equatable>(
        _ old: [Part], _ new: [Part], _ name: KeyPath<Part, String>, _ noun: String
    ) {
        let (pairs, removed) = pairs(
            old, new, name: { $0[keyPath: name] }, renaming: { _ in nil })
        for (before, after) in pairs where before != after {
            changes.append(
                .init(
                    kind: before == nil ? .added : .changed,
                    noun: "\(noun) “\(after[keyPath: name])”",
                    details: []))
        }
        for part in removed {
            changes.append(
                .init(kind: .removed, noun: "\(noun) “\(part[keyPath: name])”", details: []))
        }
    }

    private mutating func compareEntities() {
        let (pairs, removed) = pairs(
            old.entities, new.entities, name: \.name, renaming: \.renamingIdentifier)
        var renamed: [String: String] = [:]
        for (before, after) in pairs { if let before { renamed[before.name] = after.name } }
        for (before, after) in pairs {
            guard let before else {
                changes.append(.init(kind: .added, entity: after.name, noun: "entity", details: []))
                continue
            }
            let details = Self.details(of: before, after, renamed: renamed)
            let former = before.name == after.name ? nil : before.name
            if former != nil || !details.isEmpty {
                changes.append(
                    .init(
                        kind: .changed, entity: after.name, noun: "entity", formerName: former,
                        details: details))
            }
            compareProperties(before, after, renamed: renamed)
        }
        for entity in removed {
            changes.append(.init(kind: .removed, entity: entity.name, noun: "entity", details: []))
        }
    }

    private mutating func compareProperties(
        _ old: EntityDescription, _ new: EntityDescription, renamed: [String: String]
    ) {
        let (pairs, removed) = pairs(
            old.properties, new.properties, name: \.name, renaming: \.renamingIdentifier)
        for (before, after) in pairs {
            let former = before.flatMap { $0.name == after.name ? nil : $0.name }
            let details = before.map { Self.details(of: $0, after, renamed: renamed) } ?? []
            if before != nil, former == nil, details.isEmpty { continue }
            changes.append(
                .init(
                    kind: before == nil ? .added : .changed, entity: new.name, property: after.name,
                    noun: after.noun, formerName: former, details: details))
        }
        for property in removed {
            changes.append(
                .init(
                    kind: .removed, entity: new.name, property: property.name, noun: property.noun,
                    details: []))
        }
    }

    // MARK: - Details

    private static func details(
        of old: EntityDescription, _ new: EntityDescription, renamed: [String: String]
    ) -> [String] {
        var details = Details()
        let parent = old.superentityName.map { renamed[$0] ?? $0 }
        details.add("parent", parent, new.superentityName)
        details.add("abstract", old.isAbstract, new.isAbstract)
        details.add("class", old.managedObjectClassName, new.managedObjectClassName)
        details.add("version hash modifier", old.versionHashModifier, new.versionHashModifier)
        details.addChange(
            "uniqueness constraints", old.uniquenessConstraints, new.uniquenessConstraints)
        details.addChange("indexes", old.indexes, new.indexes)
        details.addChange("compound indexes", old.compoundIndexes, new.compoundIndexes)
        details.addChange("user info", old.userInfo, new.userInfo)
        return details.lines
    }

    private static func details(
        of old: PropertyDescription, _ new: PropertyDescription, renamed: [String: String]
    ) -> [String] {
        switch (old, new) {
        case (.attribute(let old), .attribute(let new)): return details(of: old, new)
        case (.relationship(let old), .relationship(let new)):
            return details(of: old, new, renamed: renamed)
        case (.fetched(let old), .fetched(let new)):
            var details = Details()
            details.add("optional", old.isOptional, new.isOptional)
            details.addChange("fetch request", old.fetchRequest, new.fetchRequest)
            details.addChange("user info", old.userInfo, new.userInfo)
            return details.lines
        default: return ["kind: \(old.noun) → \(new.noun)"]
        }
    }

    private static func details(
        of old: AttributeDescription, _ new: AttributeDescription
    ) -> [String] {
        var details = Details()
        details.add("type", old.type.title, new.type.title)
        details.add("optional", old.isOptional, new.isOptional)
        details.add("transient", old.isTransient, new.isTransient)
        details.add("default", old.defaultValue, new.defaultValue)
        details.add("minimum", old.minimum, new.minimum)
        details.add("maximum", old.maximum, new.maximum)
        details.add("regular expression", old.regularExpression, new.regularExpression)
        details.addChange("conditions", old.validationPredicates, new.validationPredicates)
        details.add("derivation", old.derivationExpression, new.derivationExpression)
        details.add("composite", old.compositeName, new.compositeName)
        details.add("transformer", old.valueTransformerName, new.valueTransformerName)
        details.add(
            "external storage", old.allowsExternalBinaryDataStorage,
            new.allowsExternalBinaryDataStorage)
        details.add("indexed", old.isIndexed, new.isIndexed)
        details.add(
            "preserved in history", old.preservesValueInHistoryOnDeletion,
            new.preservesValueInHistoryOnDeletion)
        details.add("version hash modifier", old.versionHashModifier, new.versionHashModifier)
        details.addChange("user info", old.userInfo, new.userInfo)
        return details.lines
    }

    private static func details(
        of old: RelationshipDescription, _ new: RelationshipDescription, renamed: [String: String]
    ) -> [String] {
        var details = Details()
        let destination = renamed[old.destinationEntityName] ?? old.destinationEntityName
        details.add("destination", destination, new.destinationEntityName)
        details.add("to-many", old.isToMany, new.isToMany)
        details.add("ordered", old.isOrdered, new.isOrdered)
        details.add("optional", old.isOptional, new.isOptional)
        details.add("transient", old.isTransient, new.isTransient)
        details.add("minimum count", old.minimumCount, new.minimumCount)
        if old.isToMany && new.isToMany {
            details.add("maximum count", old.maximumCount, new.maximumCount)
        }
        details.add("inverse", old.inverseName, new.inverseName)
        details.add("delete rule", "\(old.deleteRule)", "\(new.deleteRule)")
        details.add("version hash modifier", old.versionHashModifier, new.versionHashModifier)
        details.addChange("user info", old.userInfo, new.userInfo)
        return details.lines
    }
}

/// The details of a change.
private struct Details {
    private(set) var lines: [String] = []

    mutating func add(_ what: String, _ old: Bool, _ new: Bool) {
        if old != new { lines.append("\(what): \(old ? "yes" : "no") → \(new ? "yes" : "no")") }
    }

    mutating func add(_ what: String, _ old: Int, _ new: Int) {
        if old != new { lines.append("\(what): \(old) → \(new)") }
    }

    mutating func add(_ what: String, _ old: String?, _ new: String?) {
        let (old, new) = (old ?? "", new ?? "")
        if old != new {
            lines.append("\(what): \(old.isEmpty ? "none" : old) → \(new.isEmpty ? "none" : new)")
        }
    }

    mutating func add(_ what: String, _ old: AttributeValue, _ new: AttributeValue) {
        if old != new {
            lines.append(
                "\(what): \(old.isNull ? "none" : old.display) → \(new.isNull ? "none" : new.display)"
            )
        }
    }

    mutating func addChange<Value: Equatable>(_ what: String, _ old: Value, _ new: Value) {
        if old != new { lines.append(what) }
    }
}

extension PropertyDescription {
    fileprivate var noun: String {
        switch self {
        case .attribute: "attribute"
        case .relationship: "relationship"
        case .fetched: "fetched property"
        }
    }

    fileprivate var renamingIdentifier: String? {
        switch self {
        case .attribute(let attribute): attribute.renamingIdentifier
        case .relationship(let relationship): relationship.renamingIdentifier
        case .fetched: nil
        }
    }
}

// MARK: - Parts that may differ

/// A part of a model that stored data do not depend on: without it the same stores hold the same objects.
///
/// Apple's tools accept models in which such parts contradict the rest, left over from renamed, removed or retyped
/// properties. In a program's own model ``ManagedObjectModel/validate()`` reports them as errors; when read from a file they
/// are dropped with a remark.
enum ExpendablePart: Hashable {
    case defaultValue(ModelValidation.Place)
    case range(ModelValidation.Place)
    case regularExpression(ModelValidation.Place)
    case counts(entity: String, relationship: String)
    case index(entity: String, position: Int)
    case compoundIndex(entity: String, position: Int)
    case fetchedProperty(entity: String, name: String)
    case template(position: Int)
    case member(configuration: String, entity: String)

    /// The remark about its omission.
    var omission: String {
        switch self {
        case .defaultValue: "The default value is omitted."
        case .range: "Both bounds are omitted."
        case .regularExpression: "The regular expression is omitted."
        case .counts: "The bounds are omitted."
        case .index, .compoundIndex: "The index is omitted."
        case .fetchedProperty: "The fetched property is omitted."
        case .template: "The template is omitted."
        case .member: "The entity is omitted from it."
        }
    }
}

extension ManagedObjectModel {
    /// Drops the parts that fail validation and that stored data do not depend on, and appends a remark for each failure.
    ///
    /// Called after the model has been read from a file.
    package mutating func leaveOutContradictoryParts() {
        var validation = ModelValidation(self)
        validation.checkModel()
        remarks += validation.remarks
        if validation.objections.isEmpty { return }
        remarks += validation.objections.map { "\($0.message) \($0.part.omission)" }
        let parts = Set(validation.objections.map(\.part))
        for position in entities.indices { entities[position].remove(parts) }
        for position in composites.indices {
            let name = composites[position].name
            for element in composites[position].elements.indices {
                let place = ModelValidation.Place(
                    composite: name, element: composites[position].elements[element].name)
                composites[position].elements[element].remove(parts, at: place)
            }
        }
        fetchRequestTemplates = fetchRequestTemplates.enumerated()
            .filter { !parts.contains(.template(position: $0.offset)) }.map(\.element)
        for position in configurations.indices {
            let name = configurations[position].name
            configurations[position].entityNames.removeAll {
                parts.contains(.member(configuration: name, entity: $0))
            }
        }
    }
}

extension EntityDescription {
    fileprivate mutating func remove(_ parts: Set<ExpendablePart>) {
        let entity = name
        for (position, index) in indexes.enumerated()
        where parts.contains(.index(entity: entity, position: position)) {
            leftOutNames.insert(index.name)
        }
        indexes = indexes.enumerated()
            .filter { !parts.contains(.index(entity: entity, position: $0.offset)) }.map(\.element)
        compoundIndexes = compoundIndexes.enumerated()
            .filter { !parts.contains(.compoundIndex(entity: entity, position: $0.offset)) }
            .map(\.element)
        properties = properties.compactMap { property in
            switch property {
            case .attribute(var attribute):
                attribute.remove(
                    parts, at: ModelValidation.Place(entity: entity, property: attribute.name))
                return .attribute(attribute)
            case .relationship(var relationship):
                let name = relationship.name
                if parts.contains(.counts(entity: entity, relationship: name)) {
                    relationship.minimumCount = 0
                    relationship.maximumCount = relationship.isToMany ? 0 : 1
                }
                return .relationship(relationship)
            case .fetched(let fetched):
                return parts.contains(.fetchedProperty(entity: entity, name: fetched.name))
                    ? nil : property
            }
        }
    }
}

extension AttributeDescription {
    fileprivate mutating func remove(
        _ parts: Set<ExpendablePart>, at place: ModelValidation.Place
    ) {
        if parts.contains(.defaultValue(place)) { defaultValue = .null }
        if parts.contains(.range(place)) { (minimum, maximum) = (.null, .null) }
        if parts.contains(.regularExpression(place)) { regularExpression = nil }
    }
}
