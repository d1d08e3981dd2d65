import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireQuery

@Suite struct TextSearchTests {
    @Test(arguments: [
        ("pride prejudice", "Prejudice, and PRIDE", true), ("pride", "prides", false),
        ("\"and prejudice\"", "Pride and Prejudice", true),
        ("\"pride prejudice\"", "Pride and Prejudice", false), ("preju*", "Prejudice", true),
        ("\"and pre\"*", "Pride and Prejudice", true),
        ("\"an pre\"*", "Pride and Prejudice", false),
        ("emma OR persuasion", "Persuasion", true), ("a b OR c", "a c", true),
        ("a b OR c", "a", false), ("austen -emma", "Austen, Emma", false),
        ("austen -emma", "Austen", true), ("austen NOT \"emma w\"", "Austen Emma", true),
        ("a AND b", "b a", true), ("cafe", "Le Café", true), ("café", "CAFE\u{301}", true),
        ("well-known", "a well known", true), ("well-known", "known well", false),
        ("", "a", false), ("!!! ?", "a", false), ("a !!!", "a", true), ("-", "a", false),
        ("or", "or", true), ("straße", "STRASSE", false), ("ὀδυσσεύς", "ὈΔΥΣΣΕΎΣ", true),
        ("* a", "a", true), ("42", "42.", true), ("!!! -a", "b", false),
    ])
    func queriesMatch(query: String, text: String, expected: Bool) throws {
        let search = try TextSearch(query)
        #expect(search.matches(text) == expected)
    }

    @Test(arguments: [
        ("OR a", "a word before “OR” at column"), ("a OR", "a word after “OR” at column 5"),
        ("a OR OR b", "a word before “OR”"), ("a NOT", "a word after “NOT”"),
        ("a --b", "a word after"),
        ("-a", "a word to find"), ("a OR -b", "a word to find"),
        ("a \"b", "a quotation mark that ends the phrase at column 3"),
        ("NOT OR a", "a word before “OR”"), ("NOT AND a", "a word after “NOT”"),
    ])
    func malformedQueriesAreErrors(query: String, message: String) {
        let error = #expect(throws: QuireError.self) { try TextSearch(query) }
        #expect(error?.code == .invalidQuery)
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
    }

    @Test func wordsOfAPhraseAreInOneText() throws {
        #expect(try TextSearch("a b").matches(["a", "b"]))
        #expect(try !TextSearch("\"a b\"").matches(["a", "b"]))
    }

    @Test func expressionsForTheStoreAreQuoted() throws {
        #expect(
            try TextSearch("a \"b c\"* OR d -e").matchExpression()
                == "(\"a\" AND \"b c\" *) OR ((\"d\") NOT (\"e\"))")
        #expect(
            try TextSearch("a").matchExpression(in: ["Z\"A", "ZB"])
                == "{\"Z\"\"A\" \"ZB\"} : ((\"a\"))")
        #expect(try TextSearch("…").matchExpression() == nil)
    }

    // MARK: - Against FTS5

    /// A database with a full-text table and its vocabulary.
    private func database(_ folder: TemporaryFolder) throws -> SQLiteConnection {
        let connection = try SQLiteConnection(path: folder.path("fts.sqlite"), mode: .creating)
        try connection.execute(
            """
            PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
            CREATE VIRTUAL TABLE t USING fts5(x, tokenize='unicode61 remove_diacritics 2');
            CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance');
            """)
        return connection
    }

    /// Every character as a text of its own, and between letters: the words are those of FTS5, and are words of
    /// themselves.
    @Test(arguments: ["", "a"])
    func everyCharacterIsTreatedAsFTS5Does(around: String) throws {
        let folder = try TemporaryFolder()
        let connection = try database(folder)
        let scalars = (1...0x10FFFF as ClosedRange<UInt32>).compactMap(Unicode.Scalar.init)
        func text(_ scalar: Unicode.Scalar) -> String { "\(around)\(scalar)\(around)" }
        try connection.execute("BEGIN")
        for scalar in scalars {
            try connection.withStatement("INSERT INTO t (rowid, x) VALUES (?, ?)") {
                try $0.bind(Int64(scalar.value), at: 1)
                try $0.bind(text(scalar), at: 2)
                try $0.run()
            }
        }
        try connection.execute("COMMIT")
        var found: [UInt32: [Int: [UInt8]]] = [:]
        try connection.withStatement("SELECT doc, offset, term FROM v") { statement in
            while try statement.step() {
                found[UInt32(statement.integer(0)), default: [:]][Int(statement.integer(1))] =
                    Array(statement.data(2))
            }
        }
        connection.close()
        var differing: [String] = []
        for scalar in scalars {
            let words = TextTokenizer.words(of: text(scalar))
            let expected = (found[scalar.value] ?? [:]).sorted { $0.key < $1.key }.map(\.value)
            let again = words.flatMap {
                TextTokenizer.words(of: String(decoding: $0, as: UTF8.self))
            }
            if words != expected || again != words {
                differing.append(String(scalar.value, radix: 16))
            }
        }
        #expect(differing == [])
    }

    @Test func searchesFindTheSameInMemoryAndByFTS5() throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let folder = try TemporaryFolder()
        let connection = try database(folder)
        let words = [
            "a", "ab", "abc", "é", "Éa", "b-c", "ς", "…", "x.y", "ab\u{301}", "İ", "OR", "not",
        ]
        func some(_ count: UInt64) -> String {
            (0...(random.next() % count)).map { _ in words.randomElement(using: &random) ?? "" }
                .joined(separator: " ")
        }
        let operators = ["", "", "", "-", "NOT ", "a OR "]
        var texts: [String] = []
        for index in 0..<60 {
            texts.append(some(6))
            try connection.withStatement("INSERT INTO t (rowid, x) VALUES (?, ?)") {
                try $0.bind(Int64(index), at: 1)
                try $0.bind(texts[index], at: 2)
                try $0.run()
            }
        }
        var count = 0
        for _ in 0..<600 {
            var terms: [String] = []
            for _ in 0...(random.next() % 4) {
                var term = words.randomElement(using: &random) ?? ""
                if random.next() % 3 == 0 { term = "\"" + some(3) + "\"" }
                if random.next() % 4 == 0 { term += "*" }
                terms.append((operators.randomElement(using: &random) ?? "") + term)
            }
            let query = terms.joined(separator: " ")
            guard let search = try? TextSearch(query) else { continue }
            var found: Set<Int64> = []
            if let expression = search.matchExpression(in: ["x"]) {
                try connection.withStatement("SELECT rowid FROM t WHERE t MATCH ?") {
                    try $0.bind(expression, at: 1)
                    while try $0.step() { found.insert($0.integer(0)) }
                }
            }
            let expected = Set(texts.indices.filter { search.matches(texts[$0]) }.map(Int64.init))
            #expect(found == expected, "seed \(seed), query \(query)")
            count += 1
        }
        #expect(count > 200)
        connection.close()
    }
}
