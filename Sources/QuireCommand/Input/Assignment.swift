import ArgumentParser
import Foundation
import Quire

/// `key=value` on the command line.
struct Assignment: Equatable {
    /// The property's name, or the dotted name of an element of a composite attribute.
    var key: String
    /// The text to the right of the first `=`.
    var text: String

    /// Whether a word is meant as an assignment. Identifiers and entity names hold no `=`.
    static func isOne(_ word: String) -> Bool { word.contains("=") }

    /// Reads a word.
    ///
    /// - Throws: `ValidationError`, a usage error.
    init(_ word: String) throws {
        guard let mark = word.firstIndex(of: "="), mark != word.startIndex else {
            throw ValidationError("“\(word)” is not an assignment; write key=value.")
        }
        key = String(word[..<mark])
        text = String(word[word.index(after: mark)...])
    }

    /// Throws a usage error if spaces have made three words of an assignment.
    static func checkSpaces(_ words: [String]) throws {
        guard let mark = words.firstIndex(of: "="), mark > 0, mark + 1 < words.count else { return }
        throw ValidationError(
            "Write assignments without spaces: \(words[mark - 1])=\(words[mark + 1]).")
    }

    /// Reads words, each of which is an assignment of another key.
    ///
    /// - Throws: `ValidationError`, a usage error.
    static func all(_ words: [String]) throws -> [Assignment] {
        var known: Set<String> = []
        return try words.map { word in
            let assignment = try Assignment(word)
            guard known.insert(assignment.key).inserted else {
                throw ValidationError("“\(assignment.key)” is given twice.")
            }
            return assignment
        }
    }

    /// The value of the text: null, a file's content, or itself. `@@` at the start is one `@`.
    enum Source: Equatable {
        case none
        case file(String)
        case text(String)
    }

    /// The value of the text.
    var source: Source {
        if text.isEmpty { return .none }
        if text.hasPrefix("@@") { return .text(String(text.dropFirst())) }
        if text.hasPrefix("@") { return .file(String(text.dropFirst())) }
        return .text(text)
    }
}

extension Assignment {
    /// Checks the assignment against an entity and reads its value, without changing anything.
    ///
    /// - Throws: `QuireError` with code `unknownKey`, `invalidValue` or `notFound`.
    @MainActor
    func resolved(for entity: ResolvedEntity, in document: DocumentSession) throws -> PropertyChange
    {
        switch try entity.requireProperty(key) {
        case .attribute(let slot):
            return .attribute(key: key, try value(of: entity.slots[slot], in: entity))
        case .relationship(let index):
            let relationship = entity.relationships[index]
            let objects = try related(by: relationship, in: document)
            return try PropertyChange(relationship, objects, of: entity)
        case .composite:
            throw QuireError(
                .invalidValue,
                "\(entity.name).\(key) is composite; set its elements one by one, such as "
                    + "\(entity.elementNames(of: key).first ?? "\(key).x").",
                entity: entity.name, property: key)
        case .fetched:
            throw QuireError(
                .invalidValue,
                "\(entity.name).\(key) is a fetched property, which cannot be set.",
                entity: entity.name, property: key)
        }
    }

    private func value(
        of slot: ResolvedEntity.Slot, in entity: ResolvedEntity
    ) throws -> AttributeValue {
        guard let attribute = slot.attribute else {
            // A slot without an attribute is a relationship's, and those are not looked up as attributes.
            preconditionFailure("Slot \(slot.name) is not an attribute.")
        }
        let label = "\(entity.name).\(key)"
        switch source {
        case .none: return .null
        case .text(let text):
            return try Self.parse(text, attribute, label)
        case .file(let path):
            let data = try InputFile.read(path)
            if attribute.type == .binary || attribute.type == .transformable {
                return .binary(data)
            }
            guard let text = String(data: data, encoding: .utf8) else {
                throw QuireError(
                    .invalidValue, "The file “\(path)” for \(label) is not UTF-8 text.",
                    entity: entity.name, property: key, file: path)
            }
            if attribute.type == .string { return .string(text) }
            return try Self.parse(
                text.trimmingCharacters(in: .whitespacesAndNewlines), attribute, label)
        }
    }

    private static func parse(
        _ text: String, _ attribute: AttributeDescription, _ label: String
    ) throws -> AttributeValue {
        do {
            return try AttributeValue(parsing: text, as: attribute.type)
        } catch var error as QuireError {
            error.message = "\(label): \(error.message)"
            error.subject.property = attribute.name
            throw error
        }
    }

    @MainActor
    private func related(
        by relationship: ResolvedEntity.Relationship, in document: DocumentSession
    ) throws -> [ManagedObject] {
        let text: String
        switch source {
        case .none: return []
        case .text(let given): text = given
        case .file(let path):
            text = String(decoding: try InputFile.read(path), as: UTF8.self)
        }
        return try document.objects(named: text, for: relationship)
    }
}

// MARK: - Changes

/// A property of an entity with the value to give it, checked against the model.
enum PropertyChange {
    /// An attribute, or an element of a composite one.
    case attribute(key: String, AttributeValue)
    /// A to-one relationship.
    case toOne(ResolvedEntity.Relationship, ManagedObject?)
    /// A to-many relationship, as a whole.
    case toMany(ResolvedEntity.Relationship, [ManagedObject])

    /// The change that gives a relationship its objects.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if there are several for a to-one relationship.
    init(
        _ relationship: ResolvedEntity.Relationship, _ objects: [ManagedObject],
        of entity: ResolvedEntity
    ) throws {
        if relationship.isToMany {
            self = .toMany(relationship, objects)
            return
        }
        guard objects.count <= 1 else {
            throw QuireError(
                .invalidValue,
                "\(entity.name).\(relationship.name) refers to one object, but \(objects.count) "
                    + "are given.",
                entity: entity.name, property: relationship.name)
        }
        self = .toOne(relationship, objects.first)
    }

    /// Changes an object.
    func apply(to object: ManagedObject) throws {
        switch self {
        case .attribute(let key, let value): try object.setValue(value, forKey: key)
        case .toOne(let relationship, let other):
            try object.setObject(other, through: relationship)
        case .toMany(let relationship, let others):
            try object.setObjects(others, through: relationship)
        }
    }
}

extension ResolvedEntity {
    /// The dotted names of a composite attribute's elements.
    func elementNames(of composite: String) -> [String] {
        guard case .composite(let slots)? = properties[composite] else { return [] }
        return slots.map { self.slots[$0].name }
    }
}
