package import Foundation
package import Quire

/// Inserts the objects of a dump: `{"format": "quire-dump/1", "entities": {"Tag": [{"id": "Tag/p1", "name": "new"}]}}`.
///
/// Identifiers only link the objects of the dump; the new objects get their own.
package struct DumpReader {
    /// The name of the dump in errors.
    private let file: String
    private let context: ManagedObjectContext

    package init(file: String, context: ManagedObjectContext) {
        self.file = file
        self.context = context
    }

    private struct Entry {
        var entity: ResolvedEntity
        var members: [JSONNode.Member]
        var object: ManagedObject
    }

    /// Inserts all objects, and returns them. All of them are in memory.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat`, `unknownEntity`, `unknownKey` or `invalidValue`, naming line and
    ///   column. Objects may have been inserted then.
    package func insert(_ data: Data) throws -> [ManagedObject] {
        let root = try JSONReader.read(data, file: file)
        guard case .string("quire-dump/1")? = root["format"]?.content else {
            throw error(root, "the member “format” must be “quire-dump/1”")
        }
        guard let entities = root["entities"], case .object(let members) = entities.content else {
            throw error(root, "the member “entities” must be an object")
        }
        var entries: [Entry] = []
        var objects: [String: ManagedObject] = [:]
        for member in members {
            try locating(member.value) {
                let entity = try context.layout.requireEntity(named: member.name)
                guard case .array(let elements) = member.value.content else {
                    throw error(member.value, "expected an array of objects")
                }
                for element in elements {
                    let entry = try entry(element, entity: entity)
                    entries.append(entry)
                    guard case .string(let id)? = element["id"]?.content else { continue }
                    guard objects.updateValue(entry.object, forKey: id) == nil else {
                        throw error(element, "the identifier “\(id)” is used twice")
                    }
                }
            }
        }
        // Only now, because objects may refer to each other.
        for entry in entries {
            for member in entry.members where member.name != "id" {
                try locating(member.value) { try set(member, of: entry, objects) }
            }
        }
        return entries.map(\.object)
    }

    private func entry(_ element: JSONNode, entity: ResolvedEntity) throws -> Entry {
        guard case .object(let members) = element.content else {
            throw error(element, "expected an object")
        }
        return Entry(
            entity: entity, members: members,
            object: try context.insertObject(entityName: entity.name))
    }

    private func set(
        _ member: JSONNode.Member, of entry: Entry, _ objects: [String: ManagedObject]
    ) throws {
        let name = member.name == "property.id" ? "id" : member.name
        switch entry.entity.properties[name] {
        case .attribute(let slot):
            guard let attribute = entry.entity.slots[slot].attribute else { return }
            try entry.object.setValue(AttributeValue(member.value, as: attribute), forKey: name)
        case .composite(let slots):
            for slot in slots.map({ entry.entity.slots[$0] }) {
                guard let attribute = slot.attribute else { continue }
                let path = slot.name.dropFirst(name.count + 1).split(separator: ".")
                let node = path.reduce(Optional(member.value)) { $0?[String($1)] }
                guard let node else { continue }
                try entry.object.setValue(AttributeValue(node, as: attribute), forKey: slot.name)
            }
        case .relationship(let index):
            let relationship = entry.entity.relationships[index]
            let related = try related(member.value, objects)
            if relationship.isToMany {
                try entry.object.setObjects(related, through: relationship)
            } else if let object = related.first {
                // Null leaves the relationship as it is: its inverse may name the object.
                try entry.object.setObject(object, through: relationship)
            }
        case .fetched, nil: _ = try entry.object.attributeValue(forKey: name)
        }
    }

    private func related(
        _ node: JSONNode, _ objects: [String: ManagedObject]
    ) throws -> [ManagedObject] {
        switch node.content {
        case .null: return []
        case .array(let elements): return try elements.flatMap { try related($0, objects) }
        case .string(let id):
            if let object = objects[id] { return [object] }
            throw error(node, "the file has no object “\(id)”")
        default: throw error(node, "expected an identifier")
        }
    }

    private func error(_ node: JSONNode, _ sentence: String) -> QuireError {
        QuireError(
            .invalidFormat, "\(file), line \(node.line), column \(node.column): \(sentence).",
            file: file, position: node.line)
    }

    /// Adds the line and column to errors thrown by the body.
    private func locating(_ node: JSONNode, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch var failure as QuireError where failure.subject.file == nil {
            failure.message =
                "\(file), line \(node.line), column \(node.column): \(failure.message)"
            failure.subject.file = file
            failure.subject.position = node.line
            throw failure
        }
    }
}
