import Foundation
import Quire
import QuireMacros

@Entity final class Author: ManagedObject {
    @Attribute(.unique) var name: String
    @Relationship(deleteRule: .cascade, inverse: \Book.author) var books: Set<Book>
}

@Entity final class Book: ManagedObject {
    @Attribute(length: 1...200) var title: String
    @Attribute(minimum: 0, maximum: 3000) var year: Int16 = 1800
    @Relationship var author: Author?
}

let container = try PersistentContainer(
    managedObjectModel: ManagedObjectModel(classes: [Book.self]),
    persistentStoreDescriptions: [PersistentStoreDescription(path: "books.sqlite")])
let context = container.viewContext

let austen = Author(context: context)
austen.name = "Jane Austen"
for (title, year) in [("Persuasion", 1817), ("Emma", 1815)] as [(String, Int16)] {
    let book = Book(context: context)
    book.title = title
    book.year = year
    book.author = austen
}
try context.save()

for book in try context.fetch(Book.self, sortBy: [SortDescriptor(\.year)]) {
    print(book.author?.name ?? "unknown", book.title, book.year)
}

let early = try context.fetch(
    Book.self, where: #Predicate { $0.year < 1816 && $0.author?.name == "Jane Austen" },
    sortBy: [SortDescriptor(\.year)])
print(early.map(\.title))
try container.close()
