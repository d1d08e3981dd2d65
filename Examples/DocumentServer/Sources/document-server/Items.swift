import FlyingFox
import Foundation
import Quire

// What requests do with the items of a document, on the queue of a context.

extension ManagedObjectContext {
    func allItems() throws -> [ItemValues] {
        var request = FetchRequest<Item>(sortOrderings: [SortOrdering("SELF")])
        request.relationshipKeyPathsForPrefetching = ["labels"]
        return try fetch(request).map { ItemValues($0) }
    }

    /// - Throws: `QuireError` with code `notFound`.
    func item(_ number: Int64) throws -> Item {
        let id = try persistentStoreCoordinator.objectID(for: "Item/p\(number)")
        guard let item = try existingObject(with: id) as? Item else {
            throw QuireError(.notFound, "There is no item \(number).")
        }
        return item
    }

    func addItem(_ values: ItemValues) throws -> ItemValues {
        let item = Item(context: self)
        try item.replaceValues(with: values, in: self)
        try obtainPermanentIDs(for: [item])
        return ItemValues(item)
    }

    /// - Parameter condition: The value of `If-Match`, which names the values that the client has read.
    func replaceItem(
        _ number: Int64, with values: ItemValues, if condition: String?
    ) throws -> ItemValues {
        let item = try item(number)
        try ETag(ItemValues(item)).check(condition)
        try item.replaceValues(with: values, in: self)
        return ItemValues(item)
    }

    func deleteItem(_ number: Int64, if condition: String?) throws {
        let item = try item(number)
        try ETag(ItemValues(item)).check(condition)
        for label in item.labels where label.items.count == 1 { delete(label) }
        delete(item)
    }
}

/// A query for items: `?isDone=false&label=food&text=bread&sort=-priority&limit=20&offset=40`.
struct ItemQuery: Sendable {
    struct Page: Encodable {
        var items: [ItemValues]
        /// The number of items on all pages.
        var total: Int
    }

    private var request = FetchRequest<Item>(sortOrderings: [SortOrdering("SELF")])

    /// - Throws: `QuireError` with code `badRequest`.
    init(_ parameters: [HTTPRequest.QueryItem]) throws {
        var conditions: [QueryPredicate] = []
        request.fetchLimit = 20
        request.relationshipKeyPathsForPrefetching = ["labels"]
        for parameter in parameters {
            let value = parameter.value
            switch (parameter.name, value, Int(value) ?? -1) {
            case ("isDone", "true", _), ("isDone", "false", _):
                let isDone = value == "true"
                conditions.append(try QueryPredicate(#Predicate<Item> { $0.isDone == isDone }))
            // Arguments are values: a text of a client is never a part of the format.
            case ("label", _, _):
                conditions.append(try QueryPredicate("ANY labels.name == %@", value))
            case ("text", _, _):
                conditions.append(try QueryPredicate("title CONTAINS[cd] %@", value))
            case ("sort", let key, _)
            where ["title", "priority", "due"].contains(key.trimmingPrefix("-")):
                // Before the order by number, without which items of the same rank could be on two pages.
                let key = String(value.trimmingPrefix("-"))
                let order = SortOrdering(
                    key, ascending: key == value,
                    options: [.caseInsensitive, .diacriticInsensitive])
                request.sortOrderings.insert(order, at: 0)
            case ("limit", _, 1...100): request.fetchLimit = Int(value) ?? 0
            case ("offset", _, 0...): request.fetchOffset = Int(value) ?? 0
            default:
                throw QuireError(
                    .badRequest, "“\(parameter.name)=\(value)” cannot be part of a query for items."
                )
            }
        }
        request.predicate = .and(conditions)
    }

    func page(in context: ManagedObjectContext) throws -> Page {
        var all = request
        (all.fetchLimit, all.fetchOffset) = (0, 0)
        return Page(
            items: try context.fetch(request).map { ItemValues($0) },
            total: try context.count(for: all))
    }
}
