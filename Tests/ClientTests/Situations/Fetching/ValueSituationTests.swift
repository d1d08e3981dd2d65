import Foundation
import Quire
import Testing

/// Numbers, dates, identifiers and bytes at the edges of their types.
@MainActor @Suite struct ValueSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Entry") {
            Attribute("title", .string)
            Attribute("small", .integer16)
            Attribute("big", .integer64)
            Attribute("ratio", .double)
            Attribute("single", .float)
            Attribute("price", .decimal)
            Attribute("at", .date)
            Attribute("code", .uuid)
            Attribute("link", .uri)
            Attribute("digest", .binary)
            Attribute("flag", .boolean)
        }
    }

    /// Inserts entries named a, b, c … with the values.
    private static func insert(
        _ values: [Any?], forKey key: String
    ) -> @MainActor (ManagedObjectContext) throws -> Void {
        { context in
            for (letter, value) in zip("abcdefghij", values) {
                let entry = try context.insertObject(entityName: "Entry")
                entry["title"] = String(letter)
                entry[key] = value
            }
        }
    }

    private func expect(
        _ questions: [(String, [(any QueryArgument)?], String)], in context: ManagedObjectContext
    ) throws {
        for (format, arguments, titles) in questions {
            var request = FetchRequest("Entry", sortOrderings: [SortOrdering("title")])
            request.predicate = try QueryPredicate(format: format, arguments: arguments)
            let found = try context.fetch(request).map { $0["title", as: String.self] ?? "" }
            #expect(found.joined() == titles, "\(format) \(arguments)")
            #expect(try context.count(for: request) == titles.count, "\(format) \(arguments)")
        }
    }

    /// Identifiers of a web service that differ beyond 53 bits were compared as floating-point numbers: grafana/grafana#130858 (“stores and queries these values as float64”). Limits of
    /// types, and constants beyond them.
    @Test(arguments: SituationCase.all)
    func wideIntegersAreComparedExactly(_ situation: SituationCase) async throws {
        let values: [Int64] = [
            .min, -9_007_199_254_740_993, 0, 9_007_199_254_740_992, 9_007_199_254_740_993, .max - 1,
            .max,
        ]
        try await situation.run(Self.model, fill: Self.insert(values, forKey: "big")) { context in
            try expect(
                [
                    ("big == %lld", [Int64(9_007_199_254_740_993)], "e"),
                    ("big == 9007199254740993", [], "e"), ("big == 9007199254740992.0", [], "d"),
                    ("big > 9007199254740992.0", [], "efg"), ("big >= 9007199254740993", [], "efg"),
                    ("big == %@", [Int64.max], "g"), ("big == %@", [Int64.min], "a"),
                    ("big < %@", [Int64.max], "abcdef"), ("big > %@", [Int64.min], "bcdefg"),
                    ("big == 9223372036854775808.0", [], ""),
                    ("big < 9223372036854775808.0", [], "abcdefg"),
                    ("big <= %@", [1e30], "abcdefg"), ("big < %@", [-1e30], ""),
                    ("big == %@", [UInt64.max], ""), ("big != %@", [UInt64.max], "abcdefg"),
                    ("big IN %@", [[Int64.max - 1, Int64.min]], "af"),
                    ("big BETWEEN {9007199254740993, 9223372036854775806}", [], "ef"),
                    ("big == %@", [Decimal(9_007_199_254_740_993 as Int64)], "e"),
                    ("big == %@", [Double(Int64.max)], ""),
                    ("big < %@", [Double(Int64.max)], "abcdefg"),
                    ("big == -9223372036854775808", [], "a"),
                    ("big == %@", ["9007199254740993"], "e"),
                    ("big + 1 == 9007199254740994", [], "e"), ("big + 0 == %@", [Int64.max], "g"),
                    ("modulus:by:(big, 2) == 1", [], "eg"), ("big == 0.5", [], ""),
                    ("big > -0.5", [], "cdefg"),
                    ("abs(big) == 9007199254740993", [], "be"),
                ], in: context)
            let order = try context.texts("title", of: "Entry") {
                $0.sortOrderings = [SortOrdering("big", ascending: false)]
            }
            #expect(order.joined() == "gfedcba")
        }
    }

    /// A 16-bit attribute compared with a number that it cannot hold was truncated: grafana/grafana#130858 asks what to do with such bounds. 65541 is not 5.
    @Test(arguments: SituationCase.all)
    func constantsBeyondTheTypeAreNotTruncated(_ situation: SituationCase) async throws {
        try await situation.run(
            Self.model, fill: Self.insert([5, -5, 32767, -32768, nil], forKey: "small")
        ) { context in
            try expect(
                [
                    ("small == 65541", [], ""), ("small != 65541", [], "abcde"),
                    ("small < 65541", [], "abcd"), ("small > 32767", [], ""),
                    ("small >= 32767", [], "c"), ("small == 5.0", [], "a"),
                    ("small == 5.4", [], ""),
                    ("small < 5.4", [], "abd"), ("small IN {5, 65541, -98299}", [], "a"),
                    ("small BETWEEN {-40000, 40000}", [], "abcd"), ("small == '5'", [], "a"),
                    ("small == %@", [Decimal(string: "5.00")], "a"),
                    ("small * 10000 == 50000", [], "a"),
                    ("small - 1 == -32769", [], "d"), ("small == YES", [], ""),
                ], in: context)
        }
    }

    /// `price == 0.1` found nothing, because the decimal number became a floating-point number on one side: realm/realm-core#7386
    /// (“Passing a double as argument for a Query on Decimal128 did not work”).
    @Test(arguments: SituationCase.all)
    func decimalsAreComparedAsNumbers(_ situation: SituationCase) async throws {
        let values = ["0.1", "0.10", "9", "10", "-0.3", "19.99", "0"].map { Decimal(string: $0) }
        try await situation.run(Self.model, fill: Self.insert(values, forKey: "price")) { context in
            try expect(
                [
                    ("price == 0.1", [], "ab"), ("price == %@", [Decimal(string: "0.1")], "ab"),
                    ("price == %@", [0.1], "ab"), ("price == '0.1'", [], "ab"),
                    ("price < 10", [], "abceg"),
                    ("price > 9", [], "df"), ("price == 10.00", [], "d"),
                    ("price == 19.99", [], "f"),
                    ("price IN {0.1, 19.99, 10}", [], "abdf"),
                    ("price BETWEEN {-0.3, 0.1}", [], "abeg"),
                    ("price * 3 == 0.3", [], "ab"), ("price + price == 0.2", [], "ab"),
                    ("price - 0.1 == 0", [], "ab"), ("price == -0.0", [], "g"),
                    ("price == -0.3", [], "e"),
                    ("price * 100 == 1999", [], "f"),
                    ("price == CAST('19.990', 'NSDecimalNumber')", [], "f"),
                ], in: context)
            let order = try context.texts("title", of: "Entry") {
                $0.sortOrderings = [SortOrdering("price"), SortOrdering("title")]
            }
            #expect(order.joined() == "egabcdf")
        }
    }

    /// Floating-point numbers that are not finite, and zero with a sign: realm/realm-core#6182, realm/realm-core#6519.
    @Test(arguments: SituationCase.all)
    func infinitiesAreNumbersAndNaNIsMissing(_ situation: SituationCase) async throws {
        let values: [Double] = [.infinity, -.infinity, .nan, -0.0, 0, 1e-300, 1.1]
        try await situation.run(Self.model, fill: Self.insert(values, forKey: "ratio")) { context in
            try expect(
                [
                    ("ratio == %@", [Double.infinity], "a"), ("ratio > 1e308", [], "a"),
                    ("ratio == %@", [Double.nan], "c"), ("ratio == nil", [], "c"),
                    ("ratio != %@", [Double.nan], "abdefg"), ("ratio < 0", [], "b"),
                    ("ratio == 0", [], "de"),
                    ("ratio == -0.0", [], "de"), ("ratio > 0 AND ratio < 1", [], "f"),
                    ("ratio IN %@", [[Double.nan, 1.1]], "cg"), ("ratio == 1.1", [], "g"),
                    ("ratio BETWEEN %@", [-Double.infinity...0], "bde"),
                ], in: context)
            let order = try context.texts("title", of: "Entry") {
                $0.sortOrderings = [SortOrdering("ratio"), SortOrdering("title")]
            }
            #expect(order.joined() == "cbdefga")
        }
        // A 32-bit number is wider in a predicate: 0.1 is not the nearest 32-bit number.
        try await situation.run(
            Self.model, fill: Self.insert([Float(0.1), Float(0.5)], forKey: "single")
        ) { context in
            try expect(
                [
                    ("single == %@", [Float(0.1)], "a"), ("single == 0.5", [], "b"),
                    ("single < 0.2", [], "a"),
                ], in: context)
        }
    }

    /// “Everything on this day”: Stack Overflow “NSPredicate: filtering objects by day of NSDate property” and “Core Data Predicate
    /// Date Comparison”; with a day of 23 hours, and times that differ by microseconds, which stay different after a save.
    @Test(arguments: SituationCase.all)
    func aDayIsFoundInItsTimeZone(_ situation: SituationCase) async throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(identifier: "Europe/Berlin"))
        // The clocks were set forward on 2024-03-31.
        let start = try #require(
            calendar.date(from: DateComponents(year: 2024, month: 3, day: 31)))
        let end = try #require(calendar.date(byAdding: .day, value: 1, to: start))
        #expect(end.timeIntervalSince(start) == 23 * 3600)
        let odd = Date(timeIntervalSinceReferenceDate: 733_500_000.123_456_7)
        let dates = [
            start, start.addingTimeInterval(-0.000_001), end, end.addingTimeInterval(-0.000_001),
            start.addingTimeInterval(12 * 3600), odd,
            Date(timeIntervalSince1970: odd.timeIntervalSince1970),
            .distantPast, .distantFuture,
        ]
        try await situation.run(Self.model, fill: Self.insert(dates, forKey: "at")) { context in
            let same = dates[6] == odd ? "fg" : "f"
            try expect(
                [
                    ("at >= %@ AND at < %@", [start, end], "ade"),
                    ("at BETWEEN {%@, %@}", [start, end], "acde"),
                    ("at == %@", [start], "a"), ("at == %@", [odd], same),
                    ("at IN %@", [[odd, end]], "c" + same),
                    ("at < %@", [start], "b" + (odd < start ? "fg" : "") + "h"),
                    ("at == %@", [Date.distantFuture], "i"), ("at <= %@", [Date.distantPast], "h"),
                    (
                        "at >= '2024-03-31T00:00:00+01:00' AND at < '2024-04-01T00:00:00+02:00'",
                        [], "ade"
                    ),
                    ("at == CAST(%lf, 'NSDate')", [start.timeIntervalSinceReferenceDate], "a"),
                    ("at + 3600 > %@ AND at < %@", [start, start], "b"),
                ], in: context)
            let order = try context.texts("title", of: "Entry", where: "at < %@", dates[2]) {
                $0.sortOrderings = [SortOrdering("at", ascending: false)]
                $0.fetchLimit = 4
            }
            #expect(order.joined() == "deab")
        }
    }

    /// A UUID was compared as a text and found nothing: realm/realm-studio#1457; addresses and bytes likewise. Lists, orders and unequal lengths.
    @Test(arguments: SituationCase.all)
    func identifiersAddressesAndBytesAreComparedByContent(_ situation: SituationCase) async throws {
        let codes = try ["00000000", "7fffffff", "80000000", "ffffffff"].map {
            try #require(UUID(uuidString: "\($0)-0000-4000-8000-00000000abcd"))
        }
        try await situation.run(Self.model, fill: Self.insert(codes, forKey: "code")) { context in
            try expect(
                [
                    ("code == %@", [codes[1]], "b"), ("code == %@", [codes[1].uuidString], "b"),
                    ("code == %@", [codes[1].uuidString.lowercased()], "b"),
                    ("code IN %@", [[codes[0], codes[3]]], "ad"),
                    ("NOT code IN %@", [Set([codes[0]])], "bcd"), ("code != %@", [codes[2]], "abd"),
                    ("code == nil", [], ""),
                ], in: context)
            let order = try context.texts("title", of: "Entry") {
                $0.sortOrderings = [SortOrdering("code", ascending: false)]
            }
            #expect(order.joined() == "dcba")
        }
        let links = try [
            "https://example.org/a b", "https://example.org/A", "file:///tmp/x", "mailto:a@b.c",
        ]
        .map { try #require(URL(string: $0)) }
        try await situation.run(Self.model, fill: Self.insert(links, forKey: "link")) { context in
            try expect(
                [
                    ("link == %@", [links[0]], "a"), ("link == %@", [links[2].absoluteString], "c"),
                    ("link IN %@", [links], "abcd"), ("link BEGINSWITH 'https'", [], "ab"),
                    ("link CONTAINS[c] '/a'", [], "ab"), ("link != %@", [links[3]], "abc"),
                    ("link LIKE 'mailto:*'", [], "d"),
                ], in: context)
        }
        let bytes = [Data(), Data([0]), Data([0, 0]), Data([255]), Data([0x41, 0x42])]
        try await situation.run(Self.model, fill: Self.insert(bytes, forKey: "digest")) { context in
            try expect(
                [
                    ("digest == %@", [Data([0])], "b"), ("digest == %@", [Data()], "a"),
                    ("digest != %@", [Data([255])], "abce"),
                    ("digest IN %@", [[Data([0, 0]), Data([0x41, 0x42])]], "ce"),
                    ("digest == nil", [], ""),
                ], in: context)
        }
    }

    /// A Boolean that was never set is neither true nor false; `flag`, `flag == 1`, `flag == YES`, `flag != NO`: Apple,
    /// Predicate Programming Guide, “Creating Predicates” (Boolean values).
    @Test(arguments: SituationCase.all)
    func booleansAreComparedWithNumbersAndWords(_ situation: SituationCase) async throws {
        try await situation.run(Self.model, fill: Self.insert([true, false, nil], forKey: "flag")) {
            context in
            try expect(
                [
                    ("flag == YES", [], "a"), ("flag == 1", [], "a"), ("flag == true", [], "a"),
                    ("flag == %@", [true], "a"), ("flag == %d", [1], "a"), ("flag == NO", [], "b"),
                    ("flag != NO", [], "ac"), ("flag != YES", [], "bc"),
                    ("NOT flag == YES", [], "bc"),
                    ("flag == nil", [], "c"), ("flag IN {YES}", [], "a"),
                    ("flag IN {0, 1}", [], "ab"),
                    ("flag == 2", [], ""), ("flag != 2", [], "abc"), ("flag > NO", [], "a"),
                    ("flag == 'YES'", [], "a"), ("flag == 1.0", [], "a"),
                ], in: context)
            let order = try context.texts("title", of: "Entry") {
                $0.sortOrderings = [SortOrdering("flag", ascending: false)]
            }
            #expect(order.joined() == "abc")
        }
    }
}
