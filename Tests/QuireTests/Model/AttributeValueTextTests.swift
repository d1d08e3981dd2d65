import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct AttributeValueTextTests {
    private func expectError(
        _ text: String, as type: AttributeType, contains part: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: QuireError.self, sourceLocation: sourceLocation) {
            try AttributeValue(parsing: text, as: type)
        }
        #expect(error?.code == .invalidValue, sourceLocation: sourceLocation)
        #expect(
            error?.message.contains(part) == true, "\(String(describing: error))",
            sourceLocation: sourceLocation)
    }

    // MARK: - Numbers

    @Test(arguments: [
        ("0", AttributeType.integer16, 0), ("-32768", .integer16, -32_768),
        (" +32767\n", .integer16, 32_767), ("2147483647", .integer32, 2_147_483_647),
        ("-9223372036854775808", .integer64, Int64.min), ("007", .integer64, 7),
    ])
    func integers(text: String, type: AttributeType, value: Int64) throws {
        #expect(try AttributeValue(parsing: text, as: type) == .integer(value))
        #expect(AttributeValue.integer(value).text(as: type) == String(value))
    }

    @Test(arguments: [
        ("32768", AttributeType.integer16), ("-32769", .integer16), ("2147483648", .integer32),
        ("9223372036854775808", .integer64),
    ])
    func integersOutOfRange(text: String, type: AttributeType) {
        expectError(text, as: type, contains: "out of the range")
    }

    @Test(arguments: ["", " ", "1.0", "1e3", "0x10", "one", "1 2", "--1", "١٢"])
    func noIntegers(text: String) { expectError(text, as: .integer64, contains: "not an integer") }

    @Test(arguments: [
        ("1", 1.0), (".5", 0.5), ("-1.", -1), ("1e-07", 1e-7), ("+2.5E+3", 2500),
        ("inf", .infinity),
        ("-Infinity", -.infinity), ("4.9406564584124654e-324", .leastNonzeroMagnitude),
    ])
    func doubles(text: String, value: Double) throws {
        #expect(try AttributeValue(parsing: text, as: .double) == .double(value))
    }

    @Test(arguments: ["", "nan", "0x1p3", "1,5", "1.5.2", "e5", ".", "1e", "1e5x", "infinite"])
    func noDoubles(text: String) { expectError(text, as: .double, contains: "not a number") }

    @Test func numbersBeyondTheTypeAreRefused() {
        expectError("1e400", as: .double, contains: "out of the range")
        expectError("1e39", as: .float, contains: "out of the range")
    }

    @Test func floatsAreShortInThirtyTwoBits() throws {
        let value = try AttributeValue(parsing: "0.1", as: .float)
        #expect(value == .double(Double(Float(0.1))))
        #expect(value.text(as: .float) == "0.1")
        #expect(value.text(as: .double) == "0.10000000149011612")
    }

    @Test(arguments: [
        ("0", "0"), ("1234.50", "1234.5"), ("-0.001", "-0.001"), ("1.5e3", "1500"),
        ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
        ("0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
        ("1e20", "100000000000000000000"),
    ])
    func decimals(text: String, canonical: String) throws {
        let value = try AttributeValue(parsing: text, as: .decimal)
        #expect(value.text(as: .decimal) == canonical)
        #expect(try AttributeValue(parsing: canonical, as: .decimal) == value)
    }

    @Test(arguments: ["", "12abc", "1,5", "nan", "NaN", "0x1", "1e", "$5"])
    func noDecimals(text: String) { expectError(text, as: .decimal, contains: "not a number") }

    @Test func decimalsAreNeverRounded() {
        expectError("123456789012345678901234567890123456789", as: .decimal, contains: "38")
        expectError("1e200", as: .decimal, contains: "range")
    }

    @Test func randomNumbersReadBackEqual() throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        for _ in 0..<5_000 {
            let double = Double(bitPattern: random.next())
            if !double.isNaN {
                let text = try #require(AttributeValue.double(double).text(as: .double))
                #expect(try AttributeValue(parsing: text, as: .double) == .double(double))
            }
            let float = Float(bitPattern: UInt32(truncatingIfNeeded: random.next()))
            if !float.isNaN {
                let value = AttributeValue.double(Double(float))
                let text = try #require(value.text(as: .float))
                #expect(try AttributeValue(parsing: text, as: .float) == value)
            }
            let decimal = Decimal(
                sign: Bool.random(using: &random) ? .plus : .minus,
                exponent: Int.random(in: -60...60, using: &random),
                significand: Decimal(random.next()) * Decimal(random.next() >> 3))
            let text = try #require(AttributeValue.decimal(decimal).text(as: .decimal))
            #expect(
                try AttributeValue(parsing: text, as: .decimal) == .decimal(decimal),
                "seed \(SeededRandom.baseSeed): \(text)")
        }
    }

    // MARK: - Dates

    @Test(arguments: [
        (0.0, "2001-01-01T00:00:00Z"), (-0.5, "2000-12-31T23:59:59.5Z"),
        (785_668_500, "2025-11-24T09:15:00Z"), (0.000_001, "2001-01-01T00:00:00.000001Z"),
        (-978_307_200, "1970-01-01T00:00:00Z"), (-63_113_904_000, "0001-01-01T00:00:00Z"),
        (-63_145_440_000, "0000-01-02T00:00:00Z"), (252_423_993_600, "+010000-01-01T00:00:00Z"),
        (1e-7, "2001-01-01T00:00:00.0000001Z"), (-1e-7, "2000-12-31T23:59:59.9999999Z"),
        (36_548_100.123_456_7, "2002-02-28T00:15:00.1234567Z"),
    ])
    func dates(interval: Double, text: String) throws {
        let value = AttributeValue.date(Date(timeIntervalSinceReferenceDate: interval))
        #expect(value.text(as: .date) == text)
        #expect(try AttributeValue(parsing: text, as: .date) == value)
    }

    @Test(arguments: [
        ("2001-01-01", 0.0), ("2001-01-01T00:00", 0), ("2001-01-01 01:00:00", 3_600),
        ("2001-01-01T00:00:00+01:00", -3_600), ("2001-01-01T00:00:00 +0000", 0),
        ("2001-01-01t00:00:00-0530", 19_800), ("2001-01-01T00:00:00.500z", 0.5),
        ("2001-01-01T00:00:00,25+02", -7_199.75), ("2000-02-29", -26_524_800),
        (" 2001-01-02 ", 86_400), ("-000001-12-31T00:00:00Z", -63_145_612_800),
    ])
    func datesInOtherForms(text: String, interval: Double) throws {
        #expect(
            try AttributeValue(parsing: text, as: .date)
                == .date(Date(timeIntervalSinceReferenceDate: interval)))
    }

    @Test(arguments: [
        "", "2001", "2001-13-01", "2001-00-10", "2001-02-29", "1900-02-29", "2001-04-31",
        "2001-01-00", "2001-1-1", "01-01-2001", "2001-01-01T", "2001-01-01T24:00",
        "2001-01-01T00:60",
        "2001-01-01T00:00:60", "2001-01-01T00:00:00.", "2001-01-01T00:00:00.5x", "2001-01-01Z",
        "2001-01-01T00:00:00+1", "2001-01-01T00:00:00+24:00", "yesterday", "0", "2001/01/01",
    ])
    func noDates(text: String) { expectError(text, as: .date, contains: "not a date") }

    @Test func datesThatAreNoNumbersHaveNoText() {
        for interval in [Double.nan, .infinity, -.infinity, 1e300] {
            let date = Date(timeIntervalSinceReferenceDate: interval)
            #expect(AttributeValue.date(date).text(as: .date) == nil)
        }
    }

    @Test func randomDatesReadBackExactly() throws {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        for round in 0..<20_000 {
            let interval: Double =
                switch round % 4 {
                case 0: Double.random(in: -1e9...1e9, using: &random)
                case 1: Double.random(in: -9e15...9e15, using: &random)
                case 2: Double.random(in: -2...2, using: &random)
                default:
                    Double(
                        Int64.random(in: -80_000_000_000_000...80_000_000_000_000, using: &random))
                        / 1e6
                }
            let value = AttributeValue.date(Date(timeIntervalSinceReferenceDate: interval))
            let text = try #require(value.text(as: .date))
            #expect(
                try AttributeValue(parsing: text, as: .date) == value,
                "seed \(SeededRandom.baseSeed): \(interval) → \(text)")
        }
    }

    @Test func everyDayOfAPeriodHasTheCalendarsName() throws {
        // 400 years from 1 March 1900, counted by hand.
        var year = 1900
        var month = 3
        var day = 1
        var interval = -3_182_198_400.0
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        for _ in 0..<146_097 {
            let text = String(
                format: "%04d-%02d-%02dT00:00:00Z", year, month, day)
            let date = Date(timeIntervalSinceReferenceDate: interval)
            guard DateText.text(of: date) == text, DateText.date(of: text) == date else {
                Issue.record("\(text) is \(DateText.text(of: date) ?? "nil")")
                return
            }
            interval += 86_400
            day += 1
            let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
            if day > lengths[month - 1] + (month == 2 && isLeap ? 1 : 0) {
                day = 1
                month += 1
            }
            if month > 12 {
                month = 1
                year += 1
            }
        }
    }

    // MARK: - Other types

    @Test(arguments: [
        ("true", true), ("YES", true), ("1", true), ("False", false), ("no", false), ("0", false),
    ])
    func booleans(text: String, value: Bool) throws {
        #expect(try AttributeValue(parsing: text, as: .boolean) == .boolean(value))
        #expect(AttributeValue.boolean(value).text(as: .boolean) == (value ? "true" : "false"))
    }

    @Test func noBoolean() { expectError("2", as: .boolean, contains: "not true or false") }

    @Test func binaryIsBase64() throws {
        let value = AttributeValue.binary(Data([0, 1, 2, 255]))
        #expect(value.text(as: .binary) == "AAEC/w==")
        #expect(try AttributeValue(parsing: "AAEC\n /w==", as: .binary) == value)
        #expect(try AttributeValue(parsing: "AAEC/w==", as: .transformable) == value)
        #expect(try AttributeValue(parsing: "", as: .binary) == .binary(Data()))
        expectError("AAE", as: .binary, contains: "base64")
        expectError("A*==", as: .binary, contains: "base64")
    }

    @Test func uuidIsUpperCase() throws {
        let value = try AttributeValue(parsing: "5b7e8a1c-9f0d-4c52-8e6b-3a1d2c4f6e70", as: .uuid)
        #expect(value.text(as: .uuid) == "5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70")
        expectError("5b7e8a1c", as: .uuid, contains: "UUID")
    }

    @Test func uriIsKeptAsItIs() throws {
        let text = "https://example.org/a%20b?q=1#f"
        #expect(try AttributeValue(parsing: text, as: .uri).text(as: .uri) == text)
        expectError("a b", as: .uri, contains: "URI")
        expectError("", as: .uri, contains: "URI")
        expectError("http://exa mple.org", as: .uri, contains: "URI")
    }

    @Test func textIsNotTouched() throws {
        #expect(try AttributeValue(parsing: " a ", as: .string) == .string(" a "))
        #expect(AttributeValue.string("").text(as: .string) == "")
    }

    @Test func whatHasNoText() {
        #expect(AttributeValue.null.text(as: .string) == nil)
        #expect(AttributeValue.composite([:]).text(as: .composite) == nil)
        expectError("{}", as: .composite, contains: "elements")
        expectError("x", as: .objectID, contains: "store")
    }

    @Test func longTextsAreCutInErrors() {
        expectError(String(repeating: "x", count: 1_000), as: .integer16, contains: "xx…” is not")
    }
}
