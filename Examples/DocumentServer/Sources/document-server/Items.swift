import FlyingFox
import Foundation
import Quire

// What requests do with the items of a document. All run on the queue of a context.

/// A document as the server sends it.
struct DocumentRepresentation: Encodable, Sendable {
    var name: String
    var items: [ItemRepresentation]
    /// How many items have each label.
    var labels: [String: Int]

    init(_ name: DocumentName, in context: ManagedObjectContext) throws {
        var request = FetchRequest<Item>(sortOrderings: [SortOrdering("SELF")])
        request.relationshipKeyPathsForPrefetching = ["labels"]
        self.name = name.text
        items = try context.fetch(request).map { ItemRepresentation($0) }
        labels = [:]
        for name in items.flatMap(\.labels) { labels[name, default: 0] += 1 }
    }
}

/// The items that satisfy a query, a page of them.
struct ItemPage: Encodable, Sendable {
    var total: Int
    var items: [ItemRepresentation]
    /// The query of the next page, if there is one.
    var next: String?
}

/// `?done=false&label=food&text=bread&sort=-priority&limit=20&offset=40`
struct ItemQuery: Sendable {
    private var request = FetchRequest<Item>()
    private var parameters: [URLQueryItem] = []

    /// - Throws: ``RequestError`` with status 400.
    init(_ items: [HTTPRequest.QueryItem]) throws {
        var conditions: [QueryPredicate] = []
        var sort = ""
        request.fetchLimit = 20
        request.relationshipKeyPathsForPrefetching = ["labels"]
        for item in items {
            switch (item.name, item.value) {
            case ("done", "true"): conditions.append(try QueryPredicate(#Predicate<Item> { $0.isDone }))
            case ("done", "false"):
                conditions.append(try QueryPredicate(#Predicate<Item> { !$0.isDone }))
            case ("label", let name):
                // Arguments are values: no text of a client is ever part of the format.
                conditions.append(try QueryPredicate(format: "ANY labels.name == %@", name))
            case ("text", let words):
                conditions.append(try QueryPredicate(format: "title CONTAINS[cd] %@", words))
            case ("sort", "title"), ("sort", "priority"), ("sort", "due"): sort = item.value
            case ("sort", "-title"), ("sort", "-priority"), ("sort", "-due"): sort = item.value
            case ("limit", let text): request.fetchLimit = try Self.number(text, in: 1...100)
            case ("offset", let text): request.fetchOffset = try Self.number(text, in: 0...1_000_000)
            default: throw Self.error(item)
            }
            if item.name != "offset" {
                parameters.append(URLQueryItem(name: item.name, value: item.value))
            }
        }
        request.predicate = .and(conditions)
        // The items of equal rank in the order of their numbers, or a page could repeat what the last one had.
        request.sortOrderings = [SortOrdering("SELF")]
        if !sort.isEmpty {
            let key = sort.trimmingPrefix("-")
            request.sortOrderings.insert(
                SortOrdering(String(key), ascending: !sort.hasPrefix("-")), at: 0)
        }
    }

    func page(in context: ManagedObjectContext) throws -> ItemPage {
        var all = request
        (all.fetchLimit, all.fetchOffset) = (0, 0)
        var page = ItemPage(
            total: try context.count(for: all),
            items: try context.fetch(request).map { ItemRepresentation($0) })
        let offset = request.fetchOffset + page.items.count
        if offset < page.total && !page.items.isEmpty {
            var components = URLComponents()
            components.queryItems =
                parameters + [URLQueryItem(name: "offset", value: String(offset))]
            page.next = components.string
        }
        return page
    }

    private static func number(_ text: String, in range: ClosedRange<Int>) throws -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw error(.init(name: "number", value: text))
        }
        return number
    }

    private static func error(_ item: HTTPRequest.QueryItem) -> RequestError {
        RequestError(
            status: .badRequest, code: "invalidQuery",
            message: "“\(item.name)=\(item.value)” is not part of a query for items.")
    }
}

// MARK: - One item

extension ManagedObjectContext {
    /// The item of a number.
    ///
    /// - Throws: `QuireError` with code `notFound`.
    func item(_ number: Int64) throws -> Item {
        let id = try persistentStoreCoordinator.objectID(for: "\(Item.entityName)/p\(number)")
        guard let item = try existingObject(with: id) as? Item else {
            throw QuireError(.notFound, "There is no item \(number).")
        }
        return item
    }

    func addItem(_ content: ItemContent) throws -> ItemRepresentation {
        let item = Item(context: self)
        try item.replace(with: content)
        try obtainPermanentIDs(for: [item])
        return ItemRepresentation(item)
    }

    /// - Parameter condition: The value of `If-Match`: the ETag of the item that is to be replaced.
    func replaceItem(
        _ number: Int64, with content: ItemContent, if condition: String?
    ) throws -> ItemRepresentation {
        let item = try item(number)
        try ETag(ItemRepresentation(item)).check(condition)
        try item.replace(with: content)
        return ItemRepresentation(item)
    }

    func deleteItem(_ number: Int64, if condition: String?) throws {
        let item = try item(number)
        try ETag(ItemRepresentation(item)).check(condition)
        let labels = item.labels
        item.labels = []
        for label in labels { label.deleteIfUnused() }
        delete(item)
    }
}
