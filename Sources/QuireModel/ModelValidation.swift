internal import QuireSystem

extension ManagedObjectModel {
    /// Validates the model's consistency.
    ///
    /// ``layout()`` calls it and relies on it. Every contradiction is reported, not only the first. A model read from a file
    /// is not validated until then, so a faulty model can be shown and repaired.
    ///
    /// Allowed, as in Xcode and Core Data: relationships without an inverse, optional relationships with a minimum count, a
    /// to-one relationship whose named to-one inverse is paired with another relationship (it is treated as having no
    /// inverse), an ordered to-one relationship (which has no meaning), an out-of-range default value (an object cannot be
    /// saved with it).
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`, naming entity and property; with ``QuireError/failures``
    ///   for several errors.
    public func validate() throws {
        var validation = ModelValidation(self)
        validation.checkModel()
        if !validation.failures.isEmpty { throw QuireError.combining(validation.failures) }
    }
}

/// Collects the contradictions in a model.
///
/// Checks of attributes, relationships and references are in extensions in separate files.
package struct ModelValidation {
    /// The maximum depth of inheritance and of nested composites. Real models stay below ten; a malicious file must not
    /// exhaust the stack.
    package static let maximumDepth = 100
    /// The maximum number of properties of an entity, inherited ones included: SQLite's default limit of columns in a table.
    static let maximumSlotCount = 2_000
    /// The maximum number of properties of all entities together.
    static let maximumTotalSlotCount = 1_000_000

    let model: ManagedObjectModel
    /// The entities by name; the first of duplicates.
    let entities: [String: EntityDescription]
    /// The entities' own properties by name.
    let properties: [String: [String: PropertyDescription]]
    let composites: [String: CompositeDescription]
    /// The contradictions found so far.
    var failures: [QuireError] = []
    /// The errors about parts that stored data do not depend on, in the same order.
    private(set) var objections: [(part: ExpendablePart, message: String)] = []
    /// Messages about accepted but meaningless parts.
    var remarks: [String] = []
    /// The part being checked, if stored data do not depend on it.
    private var part: ExpendablePart?
    /// The composite sizes measured so far.
    var compositeMeasures: [String: CompositeMeasure] = [:]

    enum CompositeMeasure {
        case beingMeasured
        /// Recursive, or nested too deeply.
        case unbounded
        /// The number of values, and the depth of nested composites.
        case measured(count: Int, nesting: Int)
    }

    init(_ model: ManagedObjectModel) {
        self.model = model
        entities = Dictionary(
            model.entities.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        properties = entities.mapValues { entity in
            Dictionary(
                entity.properties.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        }
        composites = Dictionary(
            model.composites.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    }

    mutating func checkModel() {
        checkEntityNames()
        for identifier in model.versionIdentifiers {
            if identifier.isEmpty { fail("A version identifier is empty.") }
            if identifier.contains(where: \.isNewline) {
                fail("The version identifier “\(identifier)” contains a line break.")
            }
        }
        checkTexts(model.versionIdentifiers, of: "A version identifier")
        checkComposites()
        checkInheritance()
        for entity in model.entities { checkProperties(of: entity) }
        for entity in model.entities { checkReferences(of: entity) }
        checkConfigurations()
        checkTemplates()
    }

    /// Checks a part that stored data do not depend on.
    mutating func checking(_ part: ExpendablePart, _ check: (inout Self) -> Void) {
        self.part = part
        check(&self)
        self.part = nil
    }

    mutating func fail(_ message: String, entity: String? = nil, property: String? = nil) {
        if let part { objections.append((part, message)) }
        failures.append(
            QuireError(.invalidModel, message, entity: entity, property: property))
    }

    // MARK: - Entities

    private mutating func checkEntityNames() {
        if model.entities.count > ManagedObjectID.maximumEntityNumber {
            fail(
                "The model has \(model.entities.count) entities; "
                    + "at most \(ManagedObjectID.maximumEntityNumber) are possible.")
        }
        var seen: [String: String] = [:]
        for entity in model.entities {
            let name = entity.name
            if let reason = ModelNames.objection(toEntityName: name) {
                fail("The entity name “\(name)” \(reason).", entity: name)
            }
            if let other = seen.updateValue(name, forKey: name.lowercased()) {
                fail(
                    other == name
                        ? "Several entities are named “\(name)”."
                        : "The entity names “\(other)” and “\(name)” differ only in case, "
                            + "which table names ignore.",
                    entity: name)
            }
            checkTexts(
                [
                    entity.managedObjectClassName, entity.renamingIdentifier,
                    entity.versionHashModifier, entity.codeGenerationType,
                    entity.coreSpotlightDisplayNameExpression,
                ].compactMap { $0 } + entity.userInfo.texts,
                of: "A text of entity “\(name)”", entity: name)
        }
    }

    /// Walks the entities from the root entities downwards, and reports the unreachable ones.
    private mutating func checkInheritance() {
        var children: [String: [EntityDescription]] = [:]
        var roots: [EntityDescription] = []
        for entity in model.entities {
            guard let superentity = entity.superentityName else {
                roots.append(entity)
                continue
            }
            if entities[superentity] == nil {
                fail(
                    "Entity “\(entity.name)” inherits from “\(superentity)”, which does not exist.",
                    entity: entity.name)
                // Its own properties are checked as if it were a root, to report them in the same pass.
                roots.append(entity)
            } else {
                children[superentity, default: []].append(entity)
            }
        }
        var walk = InheritanceWalk()
        for root in roots { visit(root, children: children, depth: 1, slots: 0, walk: &walk) }
        for entity in model.entities where !walk.visited.contains(entity.name) {
            fail(
                "Entity “\(entity.name)” inherits from itself: \(cycle(from: entity.name)).",
                entity: entity.name)
        }
        if walk.totalSlots > Self.maximumTotalSlotCount {
            fail(
                "The entities together have \(walk.totalSlots) properties, including inherited ones; "
                    + "at most \(Self.maximumTotalSlotCount) are possible.")
        }
    }

    private struct InheritanceWalk {
        var visited: Set<String> = []
        /// The property names visible in the current entity, with the declaring entity of each.
        var scope: [String: String] = [:]
        var totalSlots = 0
    }

    private mutating func visit(
        _ entity: EntityDescription, children: [String: [EntityDescription]], depth: Int,
        slots inherited: Int, walk: inout InheritanceWalk
    ) {
        guard walk.visited.insert(entity.name).inserted else { return }  // Duplicate entity name.
        var added: [String] = []
        var slots = inherited
        for property in entity.properties {
            let name = property.name
            switch walk.scope[name] {
            case nil:
                walk.scope[name] = entity.name
                added.append(name)
            case entity.name?:
                fail(
                    "Entity “\(entity.name)” has several properties named “\(name)”.",
                    entity: entity.name, property: name)
            case let owner?:
                fail(
                    "Entity “\(entity.name)” redeclares “\(name)”, which it inherits from “\(owner)”.",
                    entity: entity.name, property: name)
            }
            slots += slotCount(of: property)
        }
        if slots > Self.maximumSlotCount {
            fail(
                "Entity “\(entity.name)” has \(slots) properties, including inherited ones; "
                    + "at most \(Self.maximumSlotCount) are possible.", entity: entity.name)
        }
        walk.totalSlots += min(slots, Self.maximumTotalSlotCount)
        let below = children[entity.name] ?? []
        if depth == Self.maximumDepth, let child = below.first {
            fail(
                "Entity “\(child.name)” has more than \(Self.maximumDepth) superentities.",
                entity: child.name)
            markVisited(below, children: children, walk: &walk)
        } else {
            for child in below {
                visit(child, children: children, depth: depth + 1, slots: slots, walk: &walk)
            }
        }
        for name in added { walk.scope[name] = nil }
    }

    /// Excludes entities that are too deep from the search for cycles.
    private func markVisited(
        _ entities: [EntityDescription], children: [String: [EntityDescription]],
        walk: inout InheritanceWalk
    ) {
        var pending = entities
        while let entity = pending.popLast() {
            if walk.visited.insert(entity.name).inserted {
                pending += children[entity.name] ?? []
            }
        }
    }

    /// The cycle of superentities of an entity, formatted for a message.
    private func cycle(from name: String) -> String {
        var names = [name]
        while let next = entities[names[names.count - 1]]?.superentityName, names.count < 10 {
            if names.contains(next) { return (names + [next]).joined(separator: " → ") }
            names.append(next)
        }
        return names.joined(separator: " → ") + " → …"
    }

    // MARK: - Looking up

    /// The entity and its superentities, nearest first.
    func lineage(of name: String) -> [String] {
        var names: [String] = []
        var next: String? = name
        while let name = next, names.count <= Self.maximumDepth, let entity = entities[name] {
            names.append(name)
            next = entity.superentityName
        }
        return names
    }

    /// The entity's own or inherited property with a name, and its declaring entity.
    func property(
        named name: String, of entity: String
    ) -> (owner: String, property: PropertyDescription)? {
        for owner in lineage(of: entity) {
            if let property = properties[owner]?[name] { return (owner, property) }
        }
        return nil
    }

    /// The entity's own or inherited relationship with a name, and its declaring entity.
    func relationship(
        named name: String, of entity: String
    ) -> (owner: String, relationship: RelationshipDescription)? {
        if let found = property(named: name, of: entity),
            case .relationship(let relationship) = found.property
        {
            return (found.owner, relationship)
        }
        return nil
    }
}

// MARK: - Derived attributes

extension ModelValidation {
    /// Checks that the source of a derived attribute exists and has a compatible type.
    mutating func checkSource(
        of attribute: AttributeDescription, _ expression: String, entity: String
    ) {
        let name = "“\(entity).\(attribute.name)”"
        do {
            let type = try DerivationCheck(validation: self, entity: entity)
                .check(AttributeDerivation(expression).form)
            if !type.accepts(attribute.type) {
                fail(
                    "Attribute \(name) is of type \(attribute.type.title), but “\(expression)” gives "
                        + "\(type.title).", entity: entity, property: attribute.name)
            }
        } catch {
            fail(
                "Attribute \(name) cannot be derived: \((error as? QuireError)?.message ?? "\(error)")",
                entity: entity, property: attribute.name)
        }
    }
}

/// The result type of a derivation.
private enum DerivedType {
    case integer, date
    /// Exactly the values of an attribute.
    case sameAs(AttributeType)
    /// A sum of numbers of a type.
    case sum(AttributeType)

    var title: String {
        switch self {
        case .integer: "an integer"
        case .date: "a date"
        case .sameAs(let type): "a value of type \(type.title)"
        case .sum(let type): "a sum of type \(type.title)"
        }
    }

    func accepts(_ type: AttributeType) -> Bool {
        switch (self, type) {
        case (.integer, .integer16), (.integer, .integer32), (.integer, .integer64): true
        case (.date, .date): true
        case (.sameAs(let source), _):
            source == type || Self.isInteger(source) && Self.isInteger(type)
                || Self.isFloating(source) && Self.isFloating(type)
        case (.sum(.decimal), .decimal): true
        case (.sum(let source), .double), (.sum(let source), .float): source != .decimal
        case (.sum(let source), _): Self.isInteger(source) && Self.isInteger(type)
        default: false
        }
    }

    static func isInteger(_ type: AttributeType) -> Bool {
        type == .integer16 || type == .integer32 || type == .integer64
    }

    static func isFloating(_ type: AttributeType) -> Bool { type == .double || type == .float }
}

/// Resolves the properties in a derivation.
private struct DerivationCheck {
    let validation: ModelValidation
    let entity: String

    func check(_ form: AttributeDerivation.Form) throws -> DerivedType {
        switch form {
        case .now: return .date
        case .count(let name):
            _ = try toMany(name)
            return .integer
        case .sum(let name, let key):
            let source = try attribute(
                key.split(separator: ".").map(String.init), of: toMany(name).destinationEntityName)
            switch source.type {
            case .integer16, .integer32, .integer64, .decimal, .double, .float:
                return .sum(source.type)
            default:
                throw objection(
                    "“\(key)” is of type \(source.type.title), which cannot be summed.")
            }
        case .copy(let keys):
            let source = try source(at: keys)
            switch source.type {
            case .undefined, .transformable, .objectID, .composite:
                throw objection(
                    "“\(keys.joined(separator: "."))” is of type \(source.type.title), which a derivation cannot use."
                )
            case .binary where source.allowsExternalBinaryDataStorage:
                throw objection(
                    "“\(keys.joined(separator: "."))” may be stored in external files, which a derivation cannot use."
                )
            default: return .sameAs(source.type)
            }
        case .text(let function, let keys):
            let source = try source(at: keys)
            guard source.type == .string else {
                throw objection(
                    "“\(keys.joined(separator: "."))” is of type \(source.type.title), but “\(function.rawValue):” requires text."
                )
            }
            return .sameAs(.string)
        }
    }

    private func toMany(_ name: String) throws -> RelationshipDescription {
        guard let found = validation.property(named: name, of: entity) else {
            throw objection("“\(entity)” has no property “\(name)”.")
        }
        guard case .relationship(let relationship) = found.property, relationship.isToMany else {
            throw objection("“\(entity).\(name)” is not a to-many relationship.")
        }
        if relationship.isTransient {
            throw objection("“\(entity).\(name)” is transient, so the store does not contain it.")
        }
        return relationship
    }

    /// The attribute of the object itself, or of a to-one relationship's destination.
    private func source(at keys: [String]) throws -> AttributeDescription {
        guard let found = validation.property(named: keys[0], of: entity),
            case .relationship(let relationship) = found.property
        else { return try attribute(keys, of: entity) }
        if relationship.isToMany {
            throw objection(
                "“\(entity).\(keys[0])” is a to-many relationship; use “@count” or “@sum”.")
        }
        if relationship.isTransient {
            throw objection(
                "“\(entity).\(keys[0])” is transient, so the store does not contain it.")
        }
        if keys.count == 1 {
            throw objection(
                "“\(entity).\(keys[0])” is a relationship; specify one of its attributes.")
        }
        return try attribute(Array(keys.dropFirst()), of: relationship.destinationEntityName)
    }

    private func attribute(_ keys: [String], of entity: String) throws -> AttributeDescription {
        guard let found = validation.property(named: keys[0], of: entity) else {
            throw objection("“\(entity)” has no property “\(keys[0])”.")
        }
        guard case .attribute(var attribute) = found.property else {
            throw objection(
                "“\(entity).\(keys[0])” is not an attribute; a derivation follows at most one relationship."
            )
        }
        for key in keys.dropFirst() {
            guard
                let element = validation.composites[attribute.compositeName ?? ""]?.elements
                    .first(where: { $0.name == key })
            else {
                throw objection("“\(entity).\(attribute.name)” has no element “\(key)”.")
            }
            attribute = element
        }
        if attribute.isTransient {
            throw objection(
                "“\(entity).\(keys.joined(separator: "."))” is transient, so the store does not contain it."
            )
        }
        if attribute.derivationExpression != nil {
            throw objection(
                "“\(entity).\(keys.joined(separator: "."))” is itself derived; use its source instead."
            )
        }
        return attribute
    }

    private func objection(_ message: String) -> QuireError { QuireError(.invalidModel, message) }
}
