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

    /// The number in the document, which its store never uses again: 12 of `Item/p12`.
    var number: Int64 { objectID.number }
}

/// A label. It is deleted with the last item that has it.
@Entity final class Label: ManagedObject {
    @Attribute(.unique, length: 1...50) var name: String
    @Relationship var items: Set<Item>
}

/// A checklist: one package in the folder that is served.
final class Checklist: ManagedDocument {
    private static let model = Result { try ManagedObjectModel(classes: [Item.self, Label.self]) }

    override var managedObjectModel: ManagedObjectModel? { try? Self.model.get() }

    static let wait = LockWait(timeout: .seconds(2))

    required init(fileURL: URL) {
        super.init(fileURL: fileURL)
        // The server saves each write before acknowledging it. A write that cannot be saved is discarded and reported to the client.
        autosavePolicy = .never
        keepsDrafts = false
        // Another process may have it open, or this one may still be closing it.
        lockWait = Self.wait
    }
}

// MARK: - Values

/// An item as JSON. Of what clients send, only the title is required; the number is that of the URL.
struct ItemValues: Codable, Sendable {
    var number: Int64?
    var title: String
    var isDone: Bool?
    var priority: Int?
    var due: Date?
    var labels: [String]?

    init(_ item: Item) {
        (number, title, isDone) = (item.number, item.title, item.isDone)
        (priority, due, labels) = (item.priority, item.due, item.labels.map(\.name).sorted())
    }
}

extension Item {
    /// Replaces all values.
    func replaceValues(with values: ItemValues, in context: ManagedObjectContext) throws {
        (title, isDone) = (values.title, values.isDone ?? false)
        (priority, due) = (values.priority ?? 3, values.due)
        let oldLabels = labels
        labels = try Set((values.labels ?? []).map { try Label.named($0, in: context) })
        for label in oldLabels where label.items.isEmpty { context.delete(label) }
    }
}

extension Label {
    fileprivate static func named(_ name: String, in context: ManagedObjectContext) throws -> Label
    {
        let found = try context.fetch(Label.self, where: #Predicate { $0.name == name })
        if let label = found.first { return label }
        let label = Label(context: context)
        label.name = name
        return label
    }
}

extension ManagedObjectID {
    /// The number in the identifier's short form, `Item/p12`.
    var number: Int64 { Int64(shortDescription.drop { $0 != "/" }.dropFirst(2)) ?? 0 }
}
