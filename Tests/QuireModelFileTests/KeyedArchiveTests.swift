import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireModelFiles

@Suite struct KeyedArchiveTests {
    private static let scalars: [KeyedArchive.Scalar] = [
        .null, .boolean(true), .boolean(false), .integer(0), .integer(-1), .integer(255),
        .integer(256), .integer(.max), .integer(.min), .real(0.1), .real(-.infinity),
        .string(""), .string("Emma"), .string("Łódź 🏛"),
        .string(String(repeating: "a", count: 300)),
        .date(Date(timeIntervalSinceReferenceDate: 12345.5)), .data(Data()),
        .data(Data(repeating: 7, count: 70_000)), .uuid(UUID()), .decimal(0), .decimal(-12.5),
        .decimal(Decimal(string: "340282366920938463463374607431768211455") ?? 0),
        .decimal(Decimal(string: "1e-120") ?? 0), .decimal(Decimal(string: "-1e120") ?? 0),
        .decimal(.nan),
    ]

    @Test func scalarsAreReadAsTheyWereWritten() throws {
        var writer = KeyedArchiveWriter()
        let references = Self.scalars.map { writer.add(scalar: $0) }
        let root = writer.add(array: references)
        let data = writer.data(top: [.init("root", root)])
        let archive = try KeyedArchive(data, name: "test")
        let list = try #require(try archive.list(archive.top["root"]))
        for (written, reference) in zip(Self.scalars, list) {
            let read = try #require(try archive.scalar(reference))
            if case .decimal(let number) = written, number.isNaN {
                guard case .decimal(let other) = read else {
                    Issue.record("\(read) is no decimal number")
                    continue
                }
                #expect(other.isNaN)
            } else {
                #expect(read == written)
            }
        }
    }

    /// What `NSDecimalNumberPlaceholder` is archived with, all of it or the least, counts where an integer does.
    @Test func decimalNumbersAreIntegersIfTheyAreWhole() throws {
        typealias Entry = ArchiveValue.Entry
        var writer = KeyedArchiveWriter()
        let mantissa = writer.add(scalar: .data(Data([5] + [UInt8](repeating: 0, count: 15))))
        let short = writer.add(scalar: .data(Data([5, 0])))
        let odd = writer.add(scalar: .data(Data([5])))
        let all = [
            Entry("NS.length", .integer(1)), Entry("NS.negative", .boolean(true)),
            Entry("NS.compact", .boolean(true)), Entry("NS.mantissa.bo", .integer(1)),
        ]
        func number(_ mantissa: ArchiveValue, _ exponent: Int64, _ rest: [Entry]) -> ArchiveValue {
            writer.add(
                ["NSDecimalNumberPlaceholder", "NSDecimalNumber", "NSNumber", "NSObject"],
                [Entry("NS.mantissa", mantissa), Entry("NS.exponent", .integer(exponent))] + rest)
        }
        let numbers = [
            number(mantissa, 0, all), number(mantissa, 0, []), number(short, 2, []),
            number(mantissa, 0, [Entry("NS.length", .integer(0))]), number(mantissa, -1, []),
            number(mantissa, 100, []), number(odd, 0, []),
            number(short, 0, [Entry("NS.length", .integer(9))]),
        ]
        let root = writer.add(array: numbers)
        let archive = try KeyedArchive(writer.data(top: [.init("root", root)]), name: "test")
        let list = try #require(try archive.list(archive.top["root"]))
        let expected: [Int64?] = [-5, 5, 500, 0, nil, nil, nil, nil]
        for (reference, integer) in zip(list, expected) {
            if let integer {
                #expect(try archive.integer(reference) == integer)
                #expect(try archive.boolean(reference) == (integer != 0))
            } else {
                #expect(throws: QuireError.self) { try archive.integer(reference) }
            }
        }
    }

    @Test func objectsMayReferToOneAnother() throws {
        var writer = KeyedArchiveWriter()
        let book = writer.reserve()
        let author = writer.add(
            ["Author", "NSObject"], [.init("name", writer.add("Jane")), .init("book", book)])
        writer.define(
            book, as: ["Book", "Work", "NSObject"],
            [.init("author", author), .init("year", .integer(1815)), .init("none", .null)])
        let archive = try KeyedArchive(
            writer.data(top: [.init("root", book)]), name: "test")
        let root = try #require(try archive.object(archive.top["root"]))
        #expect(root.className == "Book")
        #expect(root.classNames == ["Book", "Work", "NSObject"])
        #expect(try archive.integer(root["year"]) == 1815)
        #expect(try archive.string(root["none"]) == nil)
        let other = try #require(try archive.object(root["author"]))
        #expect(try archive.string(other["name"]) == "Jane")
        #expect(try archive.object(other["book"])?.number == root.number)
        #expect(throws: QuireError.self) { try archive.string(root["author"]) }
        #expect(throws: QuireError.self) { try archive.object(root["year"]) }
    }

    @Test func propertyListsAreKept() throws {
        let list: PropertyListValue = [
            "text": "é", "number": 5, "real": 0.5, "truth": true,
            "list": [1, 2, ["deep": .data(Data([1, 2]))]],
            "date": .date(Date(timeIntervalSince1970: 5)),
        ]
        var writer = KeyedArchiveWriter()
        let root = writer.add(propertyList: list)
        let archive = try KeyedArchive(writer.data(top: [.init("metadata", root)]), name: "test")
        var budget = 100
        #expect(try archive.propertyList(archive.top["metadata"], budget: &budget) == list)
        #expect(PropertyListValue(list.archiveValue) == list)
    }

    @Test func foundationReadsWhatIsWritten() throws {
        var writer = KeyedArchiveWriter()
        let root = writer.add(propertyList: ["a": [1, 2.5, "ü", true]])
        let data = writer.data(top: [.init("root", root)])
        let read = try NSKeyedUnarchiver.unarchivedObject(
            ofClasses: [NSDictionary.self, NSArray.self, NSString.self, NSNumber.self], from: data)
        let expected: NSDictionary = ["a": [1, 2.5, "ü", true] as [Any]]
        #expect(read as? NSDictionary == expected)
    }

    @Test func whatContainsItselfIsRefused() throws {
        // An array (0xA1) whose only element is itself.
        let body = Data("bplist00".utf8) + Data([0xA1, 0x00, 0x08])
        let trailer = Data([0, 0, 0, 0, 0, 0, 1, 1]) + number(1) + number(0) + number(10)
        #expect(throws: QuireError.self) {
            var reader = try BinaryPropertyListReader(body + trailer, name: "test")
            _ = try reader.value()
        }
    }

    @Test func aCountBeyondTheFileIsRefused() throws {
        let body = Data("bplist00".utf8) + Data([0x4F, 0x13]) + number(.max) + Data([0x08])
        let trailer = Data([0, 0, 0, 0, 0, 0, 1, 1]) + number(1) + number(0) + number(18)
        #expect(throws: QuireError.self) {
            var reader = try BinaryPropertyListReader(body + trailer, name: "test")
            _ = try reader.value()
        }
        for junk in [Data(), Data("bplist00".utf8), Data(repeating: 0xFF, count: 100)] {
            #expect(throws: QuireError.self) { try KeyedArchive(junk, name: "junk") }
        }
    }

    private func number(_ value: UInt64) -> Data {
        withUnsafeBytes(of: value.bigEndian) { Data($0) }
    }

    @Test(.corpus) func everyArchiveOfTheCorpusIsRead() throws {
        let files = Corpus.files {
            $0.hasSuffix(".mom") || $0.hasSuffix(".cdm") || $0.hasSuffix("/elements")
        }
        try #require(!files.isEmpty)
        for file in files {
            let data = try Data(contentsOf: file)
            let archive = try KeyedArchive(data, name: file.lastPathComponent)
            #expect(archive.objectCount > 10)
            // Foundation agrees on the plain parts.
            var reader = try BinaryPropertyListReader(data, name: "file")
            let value = try reader.value()
            let again = BinaryPropertyListWriter.data(of: value)
            var second = try BinaryPropertyListReader(again, name: "again")
            #expect(try second.value() == value)
            #expect(throws: Never.self) {
                try PropertyListSerialization.propertyList(from: again, format: nil)
            }
        }
    }
}
