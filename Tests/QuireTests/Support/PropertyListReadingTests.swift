import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Property lists that nobody writes by accident: each is an error, soon, and in little memory.
///
/// Each takes milliseconds, and hours if it is expanded. The limit is far above the former because the time in which a test waits
/// for a thread counts too, while the other tests of the process occupy them.
@Suite(.timeLimit(.minutes(10))) struct PropertyListReadingTests {
    private func read(_ data: Data) throws -> PropertyListValue {
        try PropertyListValue(propertyList: data, name: "list")
    }

    private func expectRefusal(
        _ data: Data, because reason: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: QuireError.self, sourceLocation: sourceLocation) {
            _ = try read(data)
        }
        #expect(error?.code == .invalidFormat, sourceLocation: sourceLocation)
        #expect(
            error?.message.contains(reason) == true, "\(error?.message ?? "")",
            sourceLocation: sourceLocation)
    }

    @Test(arguments: BinaryPropertyLists.hostile)
    func hostileBinaryListIsRefused(_ list: BinaryPropertyLists.Hostile) {
        expectRefusal(list.data, because: list.reason)
        expectRefusal(list.inDictionary, because: list.reason)
    }

    @Test func aLongTextThatIsSharedTooOftenIsRefused() throws {
        func list(_ size: Int) -> Data {
            let text =
                [0x5F, 0x12] + (0..<4).map { UInt8(truncatingIfNeeded: size >> (24 - 8 * $0)) }
                + [UInt8](repeating: 0x61, count: size)
            return BinaryPropertyLists.make(
                [[0xAF, 0x11, 0x03, 0xE8] + [UInt8](repeating: 1, count: 1000), text],
                referenceSize: 1)
        }
        guard case .array(let texts) = try read(list(10_000)) else {
            Issue.record("A text that is shared a thousand times is a list like others.")
            return
        }
        #expect(texts.count == 1000)
        #expect(texts.last?.string?.utf8.count == 10_000)
        expectRefusal(list(1_000_000), because: "far too large")
    }

    @Test func listsThatFoundationWritesAreReadAsTheyWere() throws {
        let value: PropertyListValue = [
            "text": "Grüße 🙂", "empty": "", "number": -3, "great": .integer(.max), "real": 1.5,
            "true": true, "false": false, "data": .data(Data([0, 1])),
            "date": .date(Date(timeIntervalSinceReferenceDate: 5)),
            "array": ["text", "text", [], [:]], "nested": ["text": ["text": "text"]],
        ]
        for format in [PropertyListSerialization.PropertyListFormat.binary, .xml] {
            let data = try PropertyListSerialization.data(
                fromPropertyList: value.object, format: format, options: 0)
            #expect(try read(data) == value)
        }
        #expect(try read(Data("{a = b; c = (d, e);}".utf8)) == ["a": "b", "c": ["d", "e"]])
    }

    private static let header = """
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">

        """
    private static func nested(_ depth: Int, with text: String = "") -> String {
        "<plist version=\"1.0\">" + String(repeating: "<array>\(text)", count: depth)
            + String(repeating: "</array>", count: depth) + "</plist>"
    }

    @Test(arguments: [
        nested(100_000), header + nested(100_000),
        // What closes nothing does not count.
        header + nested(100_000, with: "<!-- </array></array> --><array/>"),
        header + nested(100_000, with: "<?a </array> ?>"),
        "<!DOCTYPE plist [<!ENTITY a \"</array>\">]>" + nested(100_000),
        "<?xml version=\"1.0\" encoding=\"UTF-7\"?>" + nested(1),
        String(repeating: "(", count: 100_000), String(repeating: "{a=", count: 100_000),
        " \u{FEFF}" + String(repeating: "(", count: 100_000),
    ])
    func textThatIsNestedTooDeeplyIsRefused(_ text: String) {
        expectRefusal(Data(text.utf8), because: "nested too deeply")
        var wide = Data([0xFF, 0xFE])
        for unit in text.utf16 { wide += [UInt8(unit & 0xFF), UInt8(unit >> 8)] }
        expectRefusal(wide, because: "UTF-8")
    }

    @Test func commentsAndCharacterDataInXMLAreNoNesting() throws {
        let text =
            Self.header + "<plist version=\"1.0\"><array>"
            + String(repeating: "<!-- <array> --><string><![CDATA[<array>]]></string>", count: 100)
            + "</array></plist>"
        #expect(try read(Data(text.utf8)).array?.first == "<array>")
        #expect(try read(Data((Self.header + Self.nested(64)).utf8)).array != nil)
    }

    @Test(arguments: ["", "x <", "<", "<!--", "<plist", "bplist00", "\u{FEFF}"])
    func whatIsCutOffIsRefused(_ text: String) {
        // Foundation takes some texts for strings, which is no matter.
        _ = try? read(Data(text.utf8))
    }

    @Test(arguments: BinaryPropertyLists.hostile)
    func hostileMetadataOfAStoreIsAnErrorOfTheStore(_ list: BinaryPropertyLists.Hostile) throws {
        let stack = try TestStack()
        try stack.coordinator.close()
        let connection = try SQLiteConnection(path: stack.path, mode: .writing)
        try connection.withStatement("UPDATE Z_METADATA SET Z_PLIST = ?") {
            try $0.bind(list.inDictionary, at: 1)
            try $0.run()
        }
        connection.close()
        let error = #expect(throws: QuireError.self) {
            try SQLiteStore.open(at: stack.path).close()
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("The metadata of “\(stack.path)”") == true)
    }
}
