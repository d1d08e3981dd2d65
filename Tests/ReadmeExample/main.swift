import Quire
import QuireDocuments

let model = ManagedObjectModel {
    Entity("Author") {
        Attribute("name", .string)
        ToMany("books", "Book", inverse: "author")
    }
    Entity("Book") {
        Attribute("title", .string)
        Attribute("year", .integer16)
        Attribute("pages", .integer16)
        ToOne("author", "Author", inverse: "books")
    }
}
let document = ManagedDocument(path: "Library.quire")
try await document.create(model: model)
let context = document.managedObjectContext

let author = try context.insertObject(entityName: "Author")
author["name"] = "Jane Austen"
for (title, year) in [("Emma", 1815), ("Persuasion", 1817)] {
    let book = try context.insertObject(entityName: "Book")
    book["title"] = title
    book["year"] = year
    book["author"] = author
}
try await document.save()

author["name"] = "Somebody else"
context.undo()
let predicate = try QueryPredicate(format: "author.name BEGINSWITH %@ AND year < %d", "Jane", 1816)
for book in try context.fetch(FetchRequest("Book", predicate: predicate)) {
    print(book.objectID.shortDescription, book["title"] ?? "", book["year"] ?? 0)
}
try await document.close()

try await document.open()
// Background work, off the main queue: its saves are unsaved changes of the document.
let count = try await document.performBackgroundTask { context in
    let books = try context.fetch(FetchRequest("Book"))
    for book in books { book["pages"] = 250 }
    try context.save()
    return books.count
}
print(count, "changed; unsaved:", document.hasUnsavedChanges)

// Versions: each takes as much space as has changed since the last one.
let version = try await document.keepVersion(named: "as handed in")
let books = try document.managedObjectContext.fetch(FetchRequest("Book"))
for book in books { document.managedObjectContext.delete(book) }
try await document.restore(version.id)
print(try document.managedObjectContext.count(for: FetchRequest("Book")), "books are back")
try await document.close()

// Large values: copied into the document and read in blocks.
let films = ManagedDocument(path: "Films.quire")
try await films.create(
    model: ManagedObjectModel {
        Entity("Film") { Attribute("video", .binary).externalStorage() }
    })
let film = try films.managedObjectContext.insertObject(entityName: "Film")
try film.setExternalData(contentsOf: "/proc/self/exe", forKey: "video")
try await films.save()
if let video = try film.externalData(forKey: "video") {
    var size = 0
    for try await chunk in video.chunks() { size += chunk.count }
    print("read all of it:", size == video.size)
}
try await films.close()

// Libraries: list the documents of a folder without opening them.
for entry in try await DocumentLibrary(folder: ".").entries() {
    print(entry.title, entry.objectCount)
}

// Protection: files are sealed on disk, and open while the person's domain is unlocked.
try ProtectionDomain.makeKeyFile(at: "me.key")
let domain = try ProtectionDomain.setUp(at: "me.keybag", keyFile: "me.key")
let diary = ManagedDocument(path: "Diary.quire")
(diary.fileProtection, diary.protectionDomain) = (.complete, domain)
try await diary.create(model: model)
try await diary.close()
await domain.lock(after: .zero)
do { try await diary.open() } catch let error as QuireError { print(error.code.rawValue) }
try await domain.unlock(keyFile: "me.key")
try await diary.open()
print("open again:", diary.fileProtection == .complete)
try await diary.close()
