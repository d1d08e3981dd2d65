import Quire

extension TestStack {
    /// How many statements the store has run to read.
    public var readStatementCount: Int {
        (coordinator.store as? SQLiteStore)?.readStatementCount ?? 0
    }

    /// How many statements the store runs to read while a closure runs.
    @MainActor public func statements<Result>(
        during body: () throws -> Result
    ) rethrows -> (count: Int, result: Result) {
        let before = readStatementCount
        let result = try body()
        return (readStatementCount - before, result)
    }

    /// Saves books titled `b0`, `b1` … of authors `a0` …, with tags `t0` … two to each book.
    @MainActor public func fill(books: Int, authors: Int = 10, tags: Int = 5) throws {
        let context = mainContext()
        let authors = try (0..<authors).map { number in
            let author = try context.insertObject(entityName: "Author")
            author["name"] = .string("a\(number)")
            return author
        }
        let tags = try (0..<tags).map { number in
            let tag = try context.insertObject(entityName: "Tag")
            tag["name"] = .string("t\(number)")
            return tag
        }
        for number in 0..<books {
            let book = try context.insertObject(entityName: "Book")
            book["title"] = .string("b\(number)")
            book["year"] = .integer(Int64(number * 7 % 1000))
            if !authors.isEmpty {
                book.setObject(authors[number % authors.count], forKey: "author")
            }
            if tags.count > 1 {
                book.add(tags[number % tags.count], to: "tags")
                book.add(tags[(number + 1) % tags.count], to: "tags")
            }
        }
        try context.save()
    }
}
