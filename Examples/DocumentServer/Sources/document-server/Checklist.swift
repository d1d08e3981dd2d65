import Foundation
import Quire
import QuireDocuments
import QuireMacros

/// A line of a checklist.
@Entity final class Item: ManagedObject {
    @Attribute(length: 1...200) var title: String
    @Attribute(.indexed) var isDone: Bool
    @Attribute(default: 3, minimum: 1, maximum: 5) var priority: Int
    @Attribute var due: Date?
    @Relationship(inverse: \Label.items) var labels: Set<Label>
}

/// A label, which exists as long as an item has it.
@Entity final class Label: ManagedObject {
    @Attribute(.unique, length: 1...50) var name: String
    @Relationship var items: Set<Item>
}

/// A checklist: one package in the folder that is served.
final class Checklist: ManagedDocument {
    private static let model = Result { try ManagedObjectModel(classes: [Item.self, Label.self]) }

    override var managedObjectModel: ManagedObjectModel? { try? Self.model.get() }

    required init(fileURL: URL) {
        super.init(fileURL: fileURL)
        // The server saves each write before it acknowledges it, and drops what cannot be saved: the client is told.
        autosavePolicy = .never
        keepsDrafts = false
    }
}

// MARK: - JSON

/// An item as a client sends it. What is missing has its default value.
struct ItemContent: Decodable, Sendable {
    var title: String
    var isDone: Bool?
    var priority: Int?
    var due: Date?
    var labels: [String]?
}

/// An item as the server sends it.
struct ItemRepresentation: Encodable, Sendable {
    var id: Int64
    var title: String
    var isDone: Bool
    var priority: Int
    var due: Date?
    var labels: [String]

    init(_ item: Item) {
        id = item.number
        title = item.title
        isDone = item.isDone
        priority = item.priority
        due = item.due
        labels = item.labels.map(\.name).sorted()
    }
}

extension Item {
    static let entityName = "Item"

    /// The number of the item in its document, which the store never uses again: 12 of `Item/p12`.
    var number: Int64 { objectID.number }

    /// Gives the item the content that a client has sent.
    func replace(with content: ItemContent) throws {
        title = content.title
        isDone = content.isDone ?? false
        priority = content.priority ?? 3
        due = content.due
        let old = labels
        labels = try Set((content.labels ?? []).map(label(named:)))
        for label in old.subtracting(labels) { label.deleteIfUnused() }
    }

    private func label(named name: String) throws -> Label {
        guard let context = managedObjectContext else { throw CancellationError() }
        let found = try context.fetch(Label.self, where: #Predicate { $0.name == name })
        if let label = found.first { return label }
        let label = Label(context: context)
        label.name = name
        return label
    }
}

extension Label {
    func deleteIfUnused() {
        if items.isEmpty { managedObjectContext?.delete(self) }
    }
}

extension ManagedObjectID {
    /// The number in the identifier's short form, `Item/p12`.
    var number: Int64 { Int64(shortDescription.drop { $0 != "/" }.dropFirst(2)) ?? 0 }
}
