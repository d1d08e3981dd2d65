import Quire
import QuireDocuments

let document = ManagedDocument(path: "Library.quire")
try await document.create(from: .named("Library"))
let context = document.managedObjectContext

let author = try context.insertObject(entityName: "Author")
author["name"] = "Jane Austen"
for (title, year) in [("Emma", 1815), ("Persuasion", 1817)] as [(String, Int64)] {
    let book = try context.insertObject(entityName: "Book")
    book["title"] = .string(title)
    book["year"] = .integer(year)
    book.setObject(author, forKey: "author")
}
try await document.save()

author["name"] = "Somebody else"
context.undo()
let predicate = try QueryPredicate(format: "author.name BEGINSWITH %@ AND year < %d", "Jane", 1816)
for book in try context.fetch(FetchRequest("Book", predicate: predicate)) {
    print(book.objectID.shortDescription, book.string("title") ?? "", book.integer("year") ?? 0)
}
try await document.close()
