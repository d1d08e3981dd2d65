import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Damaged XML and binary stores: an error with a sentence, or objects, and always an end.
@Suite struct AtomicFuzzTests {
    private static let files = XMLCorpusTests.files + BinaryStoreTests.files
    private static let isThorough =
        ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"

    @Test(.corpus, arguments: files) func damagedStoresAreErrorsOrObjects(file: URL) throws {
        let folder = try TemporaryFolder()
        let whole = try Data(contentsOf: file)
        let isXML = !whole.starts(with: Data("CoreData".utf8))
        var random = SeededRandom(seed: SeededRandom.baseSeed &+ UInt64(whole.count))
        for number in 0..<(Self.isThorough ? 1000 : 12) {
            var data = whole
            if number % 3 == 0 {
                data = data.prefix(Int.random(in: 0..<whole.count, using: &random))
            } else {
                for _ in 0..<Int.random(in: 1...8, using: &random) {
                    data[Int.random(in: 0..<data.count, using: &random)] = UInt8.random(
                        in: 0...255, using: &random)
                }
            }
            let path = folder.path("\(number)")
            try data.write(to: URL(fileURLWithPath: path))
            do {
                if isXML {
                    try read(XMLStore.open(at: path, model: XMLStore.inferredModel(at: path)))
                } else {
                    try read(BinaryStore.open(at: path, model: BinaryStore.inferredModel(at: path)))
                }
            } catch let error as QuireError {
                #expect(
                    [.invalidFormat, .incompatibleModel, .unsupported].contains(error.code),
                    "seed \(SeededRandom.baseSeed), case \(number): \(error.code.rawValue) \(error)"
                )
            }
            try FileManager.default.removeItem(atPath: path)
        }
    }

    private func read(_ store: AtomicStore) throws {
        for entity in store.layout.entities {
            for row in try store.rows(matching: FetchSpecification(entity.name)) {
                for slot in row.entity.slots { _ = try row.value(at: slot.index) }
                for relationship in row.entity.relationships {
                    _ = try store.relatedRows(of: row.objectID, through: relationship)
                }
            }
        }
        try store.close()
    }
}
