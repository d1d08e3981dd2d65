import Foundation
import QuireTestSupport

@testable import Quire

/// A model that grows and changes at random.
struct RandomModel {
    var random: SeededRandom
    var model = ManagedObjectModel()
    /// What was done to it, for messages.
    private(set) var edits: [String] = []
    private var serial = 0

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        for _ in 0..<Int.random(in: 2...6, using: &random) { addEntity() }
        for _ in 0..<Int.random(in: 2...6, using: &random) { addRelationship() }
        edits = []
    }

    private mutating func name(_ prefix: String) -> String {
        serial += 1
        return "\(prefix)\(serial)"
    }

    private static let types: [AttributeType] = [
        .integer16, .integer32, .integer64, .double, .float, .string, .boolean, .date, .binary,
        .uuid, .uri, .decimal, .transformable,
    ]

    mutating func value(of type: AttributeType) -> AttributeValue {
        switch type {
        case .integer16: .integer(Int64.random(in: -300...300, using: &random))
        case .integer32, .integer64: .integer(Int64.random(in: -70000...70000, using: &random))
        case .double, .float: .double(Double(Int.random(in: -99...99, using: &random)) / 4)
        case .string: .string("s\(Int.random(in: 0...999, using: &random))ä")
        case .boolean: .boolean(Bool.random(using: &random))
        case .date:
            .date(
                Date(
                    timeIntervalSinceReferenceDate: Double(
                        Int.random(in: 0...99999, using: &random)) / 2))
        case .binary, .transformable:
            .binary(
                Data(
                    repeating: UInt8.random(in: 0...255, using: &random),
                    count: Int.random(in: 0...7, using: &random) == 0
                        ? 110_000 : Int.random(in: 0...40, using: &random)))
        case .uuid:
            .uuid(
                UUID(
                    uuid: (
                        1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6,
                        .random(in: 0...255, using: &random)
                    )))
        case .uri:
            URL(string: "https://a.org/\(Int.random(in: 0...99, using: &random))").map { .uri($0) }
                ?? .null
        case .decimal: .decimal(Decimal(Int.random(in: -999...999, using: &random)) / 8)
        case .undefined, .objectID, .composite: .null
        }
    }

    private mutating func attribute(mayBeRequired: Bool) -> AttributeDescription {
        var attribute = AttributeDescription(
            name: name("a"), type: Self.types.randomElement(using: &random) ?? .string)
        if Bool.random(using: &random) { attribute.defaultValue = value(of: attribute.type) }
        attribute.isOptional =
            !(mayBeRequired && (!attribute.defaultValue.isNull || edits.isEmpty))
            || Bool.random(using: &random)
        if attribute.type == .binary {
            attribute.allowsExternalBinaryDataStorage = Bool.random(using: &random)
        }
        return attribute
    }

    private mutating func addEntity() {
        var parent: String?
        if Int.random(in: 0...2, using: &random) > 0 {
            parent = model.entities.randomElement(using: &random)?.name
        }
        addEntity(below: parent)
    }

    private mutating func addEntity(below parent: String?) {
        var entity = EntityDescription(name: name("E"))
        entity.superentityName = parent
        // Many sub-entities have nothing of their own.
        for _ in 0..<Int.random(in: parent == nil ? 1...4 : -2...3, using: &random).clamped {
            var attribute = attribute(mayBeRequired: true)
            if !edits.isEmpty && attribute.defaultValue.isNull { attribute.isOptional = true }
            entity.properties.append(.attribute(attribute))
        }
        model.entities.append(entity)
        edits.append("add entity \(entity.name) below \(entity.superentityName ?? "-")")
    }

    private mutating func addRelationship() {
        guard let left = model.entities.indices.randomElement(using: &random),
            let right = model.entities.indices.randomElement(using: &random)
        else { return }
        let (first, second) = (name("r"), name("r"))
        let kind = Int.random(in: 0...9, using: &random)
        var forth = RelationshipDescription(
            name: first, destination: model.entities[right].name, inverse: second)
        var back = RelationshipDescription(
            name: second, destination: model.entities[left].name, inverse: first)
        forth.isToMany = kind >= 3
        back.isToMany = kind >= 6
        if forth.isToMany { forth.isOrdered = Int.random(in: 0...2, using: &random) == 0 }
        if back.isToMany { back.isOrdered = Int.random(in: 0...2, using: &random) == 0 }
        if kind == 0 || kind == 9 {
            forth.inverseName = nil
            forth.inverseEntityName = nil
            model.entities[left].properties.append(.relationship(forth))
            edits.append("add lone \(model.entities[left].name).\(first)")
            return
        }
        model.entities[left].properties.append(.relationship(forth))
        model.entities[right].properties.append(.relationship(back))
        edits.append(
            "add \(model.entities[left].name).\(first) - \(model.entities[right].name).\(second)")
    }

    // MARK: - Edits

    /// Forgets what things were called.
    mutating func beginVersion() {
        edits = []
        for entity in model.entities.indices {
            model.entities[entity].renamingIdentifier = nil
            for property in model.entities[entity].properties.indices {
                switch model.entities[entity].properties[property] {
                case .attribute(var attribute):
                    attribute.renamingIdentifier = nil
                    model.entities[entity].properties[property] = .attribute(attribute)
                case .relationship(var relationship):
                    relationship.renamingIdentifier = nil
                    model.entities[entity].properties[property] = .relationship(relationship)
                case .fetched: break
                }
            }
        }
    }

    /// Makes one change, unless it makes no model.
    mutating func edit() { edit { $0.editAtRandom() } }

    /// Removes a sub-entity, or puts another in its place; one that has nothing of its own, if there is one.
    mutating func editHierarchy() {
        edit {
            let entities = $0.model.entities
            let below = entities.indices.filter { entities[$0].superentityName != nil }
            let bare = below.filter { entities[$0].properties.isEmpty }
            guard let entity = (bare.isEmpty ? below : bare).randomElement(using: &$0.random) else {
                return
            }
            if Bool.random(using: &$0.random) {
                $0.removeEntity(entity)
            } else {
                $0.replaceEntity(entity)
            }
        }
    }

    private mutating func edit(_ change: (inout RandomModel) -> Void) {
        let (before, known) = (model, edits)
        change(&self)
        if (try? model.validate()) == nil || (try? model.layout()) == nil {
            (model, edits) = (before, known)
        }
    }

    private mutating func editAtRandom() {
        guard let entity = model.entities.indices.randomElement(using: &random) else { return }
        switch Int.random(in: 0...19, using: &random) {
        case 0, 1:
            var attribute = attribute(mayBeRequired: true)
            if attribute.defaultValue.isNull { attribute.isOptional = true }
            model.entities[entity].properties.append(.attribute(attribute))
            edits.append("add \(model.entities[entity].name).\(attribute.name)")
        case 2: removeProperty(entity)
        case 3, 4: rename(entity)
        case 5, 6: changeAttribute(entity)
        case 7: addEntity()
        case 8: removeEntity(entity)
        case 9: renameEntity(entity)
        case 10, 11: moveEntity(entity)
        case 12: addRelationship()
        case 13, 14: changeRelationship(entity)
        case 15: addSuperentity(entity)
        case 16: addDerived(entity)
        case 17: removeEntity(entity)
        case 18: replaceEntity(entity)
        default: moveProperty(entity)
        }
    }

    private mutating func removeProperty(_ entity: Int) {
        guard let index = model.entities[entity].properties.indices.randomElement(using: &random)
        else { return }
        let property = model.entities[entity].properties.remove(at: index)
        edits.append("remove \(model.entities[entity].name).\(property.name)")
        if case .relationship(let relationship) = property, let inverse = relationship.inverseName {
            for other in model.entities.indices
            where model.entities[other].name == relationship.destinationEntityName {
                model.entities[other].properties.removeAll { $0.name == inverse }
            }
        }
        removeBrokenDerivations()
    }

    /// Attributes that are derived from what is not there any more.
    private mutating func removeBrokenDerivations() {
        let names = Set(model.entities.flatMap { $0.properties.map(\.name) })
        for entity in model.entities.indices {
            model.entities[entity].properties.removeAll {
                guard case .attribute(let attribute) = $0,
                    let expression = attribute.derivationExpression
                else { return false }
                return !names.contains(String(expression.prefix { $0 != "." }))
            }
        }
    }

    private mutating func rename(_ entity: Int) {
        guard let index = model.entities[entity].properties.indices.randomElement(using: &random)
        else { return }
        switch model.entities[entity].properties[index] {
        case .attribute(var attribute):
            if attribute.renamingIdentifier != nil || attribute.derivationExpression != nil {
                return
            }
            attribute.renamingIdentifier = attribute.name
            attribute.name = name("a")
            edits.append("rename \(attribute.renamingIdentifier ?? "") to \(attribute.name)")
            model.entities[entity].properties[index] = .attribute(attribute)
        case .relationship(var relationship):
            if relationship.renamingIdentifier != nil { return }
            let old = relationship.name
            relationship.renamingIdentifier = old
            relationship.name = name("r")
            edits.append("rename \(old) to \(relationship.name)")
            model.entities[entity].properties[index] = .relationship(relationship)
            forEachRelationship { other in
                if other.inverseName == old { other.inverseName = relationship.name }
            }
        case .fetched: break
        }
        removeBrokenDerivations()
    }

    private mutating func forEachRelationship(_ body: (inout RelationshipDescription) -> Void) {
        for entity in model.entities.indices {
            for property in model.entities[entity].properties.indices {
                guard
                    case .relationship(var relationship) = model.entities[entity].properties[
                        property]
                else { continue }
                body(&relationship)
                model.entities[entity].properties[property] = .relationship(relationship)
            }
        }
    }

    private mutating func changeAttribute(_ entity: Int) {
        let indices = model.entities[entity].properties.indices.filter {
            if case .attribute = model.entities[entity].properties[$0] { true } else { false }
        }
        guard let index = indices.randomElement(using: &random),
            case .attribute(var attribute) = model.entities[entity].properties[index],
            attribute.derivationExpression == nil
        else { return }
        let old = attribute.type
        switch (attribute.type, Bool.random(using: &random)) {
        case (.integer16, true):
            attribute.type =
                [.integer32, .integer64, .double, .float, .decimal].randomElement(using: &random)
                ?? .double
        case (.integer32, true), (.integer64, true):
            attribute.type = Bool.random(using: &random) ? .double : .decimal
        case (.float, true): attribute.type = .double
        case (.boolean, true): attribute.type = .integer32
        case (.binary, _): attribute.allowsExternalBinaryDataStorage.toggle()
        default:
            attribute.isOptional.toggle()
            if !attribute.isOptional { attribute.defaultValue = value(of: attribute.type) }
        }
        if attribute.type != old && !attribute.defaultValue.isNull {
            attribute.defaultValue = value(of: attribute.type)
        }
        edits.append("change \(model.entities[entity].name).\(attribute.name)")
        model.entities[entity].properties[index] = .attribute(attribute)
    }

    /// Removes an entity; its sub-entities go too, or come below its superentity.
    private mutating func removeEntity(_ entity: Int) {
        let (name, parent) = (model.entities[entity].name, model.entities[entity].superentityName)
        let keepsSubentities = Bool.random(using: &random)
        var removed: Set<String> = [name]
        var count = 0
        while !keepsSubentities && count < removed.count {
            count = removed.count
            for other in model.entities where removed.contains(other.superentityName ?? "") {
                removed.insert(other.name)
            }
        }
        guard model.entities.count > removed.count + 1 else { return }
        for other in model.entities.indices where model.entities[other].superentityName == name {
            model.entities[other].superentityName = parent
        }
        let inverses = Set(
            model.entities.filter { removed.contains($0.name) }.flatMap(\.relationships)
                .compactMap(\.inverseName))
        model.entities.removeAll { removed.contains($0.name) }
        for other in model.entities.indices {
            model.entities[other].properties.removeAll {
                if case .relationship(let relationship) = $0 {
                    return removed.contains(relationship.destinationEntityName)
                        || inverses.contains(relationship.name)
                }
                return false
            }
        }
        removeBrokenDerivations()
        edits.append("remove entities \(removed.sorted().joined(separator: ", "))")
    }

    /// Puts another entity in the place of one.
    private mutating func replaceEntity(_ entity: Int) {
        let (name, parent) = (model.entities[entity].name, model.entities[entity].superentityName)
        removeEntity(entity)
        if model.entity(named: name) != nil { return }
        addEntity(below: parent)
        edits.append("in the place of \(name)")
    }

    private mutating func renameEntity(_ entity: Int) {
        if model.entities[entity].renamingIdentifier != nil { return }
        let old = model.entities[entity].name
        let new = name(Bool.random(using: &random) ? "E" : "A")
        model.entities[entity].name = new
        model.entities[entity].renamingIdentifier = old
        for other in model.entities.indices where model.entities[other].superentityName == old {
            model.entities[other].superentityName = new
        }
        forEachRelationship { relationship in
            if relationship.destinationEntityName == old {
                relationship.destinationEntityName = new
            }
            if relationship.inverseEntityName == old { relationship.inverseEntityName = new }
        }
        edits.append("rename entity \(old) to \(new)")
    }

    private mutating func moveEntity(_ entity: Int) {
        let other = model.entities.randomElement(using: &random)?.name
        let parent = Bool.random(using: &random) ? nil : other
        if parent == model.entities[entity].name { return }
        model.entities[entity].superentityName = parent
        edits.append("move \(model.entities[entity].name) below \(parent ?? "-")")
    }

    private mutating func addSuperentity(_ entity: Int) {
        var parent = EntityDescription(name: name("S"))
        parent.isAbstract = Bool.random(using: &random)
        parent.superentityName = model.entities[entity].superentityName
        model.entities[entity].superentityName = parent.name
        model.entities.append(parent)
        edits.append("new superentity \(parent.name) of \(model.entities[entity].name)")
    }

    private mutating func moveProperty(_ entity: Int) {
        guard let parent = model.entities[entity].superentityName,
            let index = model.entities.firstIndex(where: { $0.name == parent }),
            let property = model.entities[entity].properties.indices.randomElement(using: &random),
            case .attribute(var attribute) = model.entities[entity].properties[property]
        else { return }
        if attribute.derivationExpression != nil { return }
        model.entities[entity].properties.remove(at: property)
        if attribute.defaultValue.isNull { attribute.isOptional = true }
        model.entities[index].properties.append(.attribute(attribute))
        edits.append("move \(attribute.name) up to \(parent)")
    }

    private mutating func addDerived(_ entity: Int) {
        guard
            let relationship = model.entities[entity].relationships.filter(\.isToMany)
                .randomElement(using: &random)
        else { return }
        var attribute = AttributeDescription(name: name("d"), type: .integer64)
        attribute.derivationExpression = "\(relationship.name).@count"
        model.entities[entity].properties.append(.attribute(attribute))
        edits.append("derive \(attribute.derivationExpression ?? "")")
    }

    private mutating func changeRelationship(_ entity: Int) {
        let indices = model.entities[entity].properties.indices.filter {
            if case .relationship = model.entities[entity].properties[$0] { true } else { false }
        }
        guard let index = indices.randomElement(using: &random),
            case .relationship(var relationship) = model.entities[entity].properties[index]
        else { return }
        switch Int.random(in: 0...4, using: &random) {
        case 0,
            1 where relationship.isToMany:
            relationship.isOrdered.toggle()
        case 2:
            // Between one and many, with or without an inverse.
            relationship.isToMany.toggle()
            if !relationship.isToMany { relationship.isOrdered = false }
        case 3 where relationship.inverseName != nil:
            let (name, inverse) = (relationship.name, relationship.inverseName)
            relationship.inverseName = nil
            relationship.inverseEntityName = nil
            for other in model.entities.indices {
                model.entities[other].properties.removeAll {
                    if case .relationship(let back) = $0 {
                        return back.name == inverse && back.inverseName == name
                    }
                    return false
                }
            }
        case 4 where relationship.inverseName == nil:
            var back = RelationshipDescription(
                name: name("r"), destination: model.entities[entity].name,
                inverse: relationship.name)
            back.isToMany = Bool.random(using: &random)
            relationship.inverseName = back.name
            relationship.inverseEntityName = relationship.destinationEntityName
            for other in model.entities.indices
            where model.entities[other].name == relationship.destinationEntityName {
                model.entities[other].properties.append(.relationship(back))
            }
        default: return
        }
        if let place = model.entities[entity].properties.firstIndex(where: {
            $0.name == relationship.name
        }) {
            model.entities[entity].properties[place] = .relationship(relationship)
        }
        removeBrokenDerivations()
        edits.append(
            "change \(model.entities[entity].name).\(relationship.name) to "
                + "\(relationship.isToMany ? relationship.isOrdered ? "ordered" : "many" : "one") inverse "
                + "\(relationship.inverseName ?? "-")")
    }
}

extension Int {
    /// The number, or 0 if it is negative.
    fileprivate var clamped: Int { Swift.max(self, 0) }
}
