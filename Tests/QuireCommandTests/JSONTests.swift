import Foundation
import Quire
import QuireDocuments
import QuireTestSupport
import Testing

@testable import QuireCommand

@Suite struct JSONWriterTests {
    @Test func namesAreSortedAndTextsEscapedOnlyWhereTheyMust() {
        let value = JSONValue.object([
            "b": .string("a/b \"q\" \\ é\u{1}\n"), "a": .array([.null, .boolean(true)]),
        ])
        #expect(value.text() == #"{"a": [null, true], "b": "a/b \"q\" \\ é\u0001\n"}"#)
    }

    @Test(arguments: [
        (Int64.max, "9223372036854775807"), (Int64.min, "-9223372036854775808"), (0, "0"),
    ])
    func integersAreExact(_ value: Int64, _ text: String) {
        #expect(JSONValue.integer(value).text() == text)
    }

    @Test func doublesReadBackTheSame() throws {
        var generator = SeededRandom(seed: SeededRandom.baseSeed)
        for _ in 0..<1000 {
            let value = Double(bitPattern: generator.next())
            guard value.isFinite else { continue }
            #expect(Double(JSONValue.double(value).text()) == value, "bits \(value.bitPattern)")
        }
        #expect(JSONValue.double(0.1).text() == "0.1")
        #expect(JSONValue.double(.infinity).text() == "\"Infinity\"")
    }

    /// Each used to be appended to a copy of the text so far.
    @Test(.timeLimit(.minutes(1))) func aLongListIsWrittenInLinearTime() {
        let text = "x-coredata://2B6BE4C2-3D3F-4E69-9A3B-6D4A0E9F5A11/Book/p1"
        let list = JSONValue.array(Array(repeating: .string(text), count: 100_000))
        #expect(list.text().utf8.count == 100_000 * (text.utf8.count + 4))
    }

    @Test func outerLevelsAreSpreadOverLines() {
        let value = JSONValue.array([.object(["a": .integer(1)]), .array([])])
        #expect(value.text(levels: 1) == "[\n  {\"a\": 1},\n  []\n]")
        #expect(value.text(levels: 2) == "[\n  {\n    \"a\": 1\n  },\n  []\n]")
        #expect(JSONValue.array([]).text(levels: 1) == "[]")
    }
}

@Suite struct JSONReaderTests {
    private func read(_ text: String) throws -> JSONNode {
        try JSONReader.read(Data(text.utf8), file: "a.json")
    }

    private func message(of text: String) throws -> String {
        let error = #expect(throws: QuireError.self) { try read(text) }
        return try #require(error).message
    }

    @Test func everyKindOfValueIsRead() throws {
        let root = try read(#" {"a": [null, true, -1.50e+3, "x\u00e9\ud83d\ude00\n"], "b": {}} "#)
        guard case .array(let elements)? = root["a"]?.content, elements.count == 4 else {
            Issue.record("“a” is no array of four")
            return
        }
        #expect(elements.map(\.kind) == ["null", "a Boolean", "a number", "a string"])
        if case .number(let digits) = elements[2].content { #expect(digits == "-1.50e+3") }
        if case .string(let text) = elements[3].content { #expect(text == "xé😀\n") }
    }

    @Test func nodesKnowTheirPlaces() throws {
        let root = try read("{\n  \"é\": 1, \"b\": 2\n}")
        #expect(root["b"].map { [$0.line, $0.column] } == [2, 16])
    }

    @Test(arguments: [
        ("", "line 1, column 1: this is not valid JSON: unexpected end, expected a value."),
        ("[1,]", "line 1, column 4: this is not valid JSON: expected a value."),
        (
            "[1 2]",
            "line 1, column 4: this is not valid JSON: expected a comma or a closing bracket."
        ),
        (
            "{\"a\": 1, \"a\": 2}",
            "line 1, column 10: this is not valid JSON: the name “a” appears twice in this object."
        ),
        (
            "{a: 1}",
            "line 1, column 2: this is not valid JSON: expected a name in quotation marks."
        ),
        (
            "01",
            "line 1, column 2: this is not valid JSON: expected the end after the value."
        ),
        (
            "\"a\nb\"",
            "line 1, column 3: this is not valid JSON: a control character must be escaped."
        ),
        (
            "\"\\ud800\"",
            "line 1, column 2: this is not valid JSON: unpaired surrogate."
        ),
        (
            "\"\\u+123\"",
            "line 1, column 4: this is not valid JSON: expected four hexadecimal digits after \\u."
        ),
        (
            "[\n\"abc",
            "line 2, column 1: this is not valid JSON: this string has no closing quotation mark."
        ),
    ])
    func malformedTextIsRefusedWithItsPlace(_ text: String, _ sentence: String) throws {
        #expect(try message(of: text) == "a.json, " + sentence)
    }

    @Test func deepNestingIsRefusedNotCrashedOn() throws {
        let text = String(repeating: "[", count: 100_000)
        #expect(try message(of: text).contains("nested more than 128 levels deep"))
    }

    /// The place of each value used to be counted from the start of its line.
    @Test(.timeLimit(.minutes(1))) func aLongLineIsReadInLinearTime() throws {
        let count = 200_000
        let text = "[" + String(repeating: "{\"a\":1},", count: count) + "{\"é\":2}]"
        guard case .array(let elements) = try read(text).content else {
            Issue.record("This is no array.")
            return
        }
        #expect(elements.count == count + 1)
        #expect(elements.last?["é"].map { [$0.line, $0.column] } == [1, 8 * count + 7])
    }

    @Test func elementsOfAnArrayAreReadOneByOne() throws {
        var read: [String] = []
        let blocks = ["\u{FEFF} [ {\"a\"", ": 1}, t", "rue, \"\\u00", "e9\"", "] "]
        var rest = blocks[...]
        var left: [Int] = []
        let bytes = ByteReader { rest.popFirst().map { Array($0.utf8) } ?? [] }
        try JSONReader.forEachElement(of: bytes, file: "a.json") {
            read.append($0.kind)
            left.append(rest.count)
        }
        #expect(read == ["an object", "a Boolean", "a string"])
        #expect(left == [3, 2, 1])
    }

    @Test func aTextThatIsNoArrayHasNoElements() throws {
        func message(_ text: String) throws -> String {
            let error = #expect(throws: QuireError.self) {
                try JSONReader.forEachElement(of: ByteReader(Data(text.utf8)), file: "a.json") {
                    _ in
                }
            }
            return try #require(error).message
        }
        #expect(try message("\n{}") == "a.json, line 2: expected an array of objects.")
        #expect(try message("{]").contains("this is not valid JSON"))
        #expect(try message("[1] 2").contains("expected the end after the value"))
    }

    @Test func valuesTakeTheAttributesType() throws {
        func value(_ text: String, _ type: AttributeType) throws -> AttributeValue {
            try AttributeValue(read(text), as: AttributeDescription(name: "a", type: type))
        }
        #expect(try value("9007199254740993", .integer64) == .integer(9_007_199_254_740_993))
        #expect(try value("\"0.1\"", .decimal) == value("0.1", .decimal))
        #expect(try value("null", .string) == .null)
        #expect(try value("\"\"", .string) == .string(""))
        #expect(try value("\"aGk=\"", .binary) == .binary(Data("hi".utf8)))
        #expect(throws: QuireError.self) { try value("1.5", .integer16) }
        #expect(throws: QuireError.self) { try value("5", .string) }
        #expect(throws: QuireError.self) { try value("[]", .string) }
    }

    /// JSON has one kind of number: 1.0 and 1e3 are integers.
    @Test(arguments: [
        ("1.0", AttributeType.integer16, 1 as Int64), ("1e3", .integer16, 1000),
        ("-1.50e+3", .integer16, -1500), ("120e-1", .integer32, 12), ("0.0", .integer16, 0),
        ("-0", .integer64, 0), ("0e999", .integer64, 0), ("32767.000", .integer16, 32767),
        ("9.223372036854775807e18", .integer64, .max), ("-9223372036854775808.0", .integer64, .min),
    ])
    func wholeNumbersAreIntegersInEveryForm(
        _ text: String, _ type: AttributeType, _ expected: Int64
    ) throws {
        let attribute = AttributeDescription(name: "a", type: type)
        #expect(try AttributeValue(read(text), as: attribute) == .integer(expected))
    }

    @Test(arguments: [
        ("1.5", AttributeType.integer64, "“1.5” is not an integer like 12."),
        ("1e-1", .integer64, "“1e-1” is not an integer like 12."),
        ("9007199254740993.00000000000000000001", .integer64, "is not an integer"),
        (
            "1e400", .integer64,
            "“1e400” is out of the range of a 64-bit integer, -9223372036854775808 to 9223372036854775807."
        ),
        ("9.223372036854775808e18", .integer64, "is out of the range"),
        ("32768.0", .integer16, "is out of the range"), ("1e5", .integer16, "is out of the range"),
        ("1e999999999999999999999", .integer64, "is out of the range"),
        ("1.0e2", .string, "which is not a valid value"),
    ])
    func otherNumbersAreNoIntegers(
        _ text: String, _ type: AttributeType, _ sentence: String
    ) throws {
        let error = #expect(throws: QuireError.self) {
            try AttributeValue(read(text), as: AttributeDescription(name: "a", type: type))
        }
        #expect(error?.message.contains(sentence) == true, "\(error?.message ?? "")")
    }

    @Test func truthValuesMayBeWholeNumbers() throws {
        let attribute = AttributeDescription(name: "a", type: .boolean)
        #expect(try AttributeValue(read("1.0"), as: attribute) == .boolean(true))
        #expect(try AttributeValue(read("0"), as: attribute) == .boolean(false))
        #expect(throws: QuireError.self) { try AttributeValue(read("2"), as: attribute) }
    }
}
