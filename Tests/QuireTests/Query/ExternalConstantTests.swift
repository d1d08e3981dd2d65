import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// Values in files as constants of requests: they count as their bytes, and as an error if they cannot be read.
@MainActor
@Suite struct ExternalConstantTests {
    nonisolated static let model = ManagedObjectModel(entities: [
        FixtureModels.entity(
            "Cover",
            FixtureModels.attribute("image", .binary) { $0.allowsExternalBinaryDataStorage = true },
            FixtureModels.attribute("small", .binary), FixtureModels.attribute("rank", .integer16))
    ])
    private static let bytes = Data(repeating: 7, count: 5_000)

    let folder: TemporaryFolder
    /// A value of a SQLite store in the file at ``file``, as an object gives it that does not read it.
    let value: AttributeValue
    let file: String
    let owner: String
    private let origin: PersistentStoreCoordinator

    init() throws {
        folder = try TemporaryFolder()
        var description = PersistentStoreDescription(path: folder.path("origin.sqlite"))
        description.sqliteOptions.externalDataThreshold = 1_000
        origin = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        try origin.addPersistentStore(description)
        let context = ManagedObjectContext.mainQueue(coordinator: origin)
        let cover = try context.insertObject(entityName: "Cover")
        cover["image"] = Self.bytes
        try context.save()
        owner = cover.objectID.uriRepresentation
        context.reset()
        let again = try context.fetch(FetchRequest("Cover"))[0]
        guard case .value(let value)? = try again.committedValues(forKeys: ["image"])["image"],
            case .external(let data) = value
        else { throw QuireError(.invalidValue, "The value is not in a file.") }
        self.value = value
        file = try #require(data.path)
    }

    /// A store of a type with two covers, of which the first has these bytes in its row.
    private func covers(_ type: StoreType) throws -> ManagedObjectContext {
        let coordinator = try PersistentStoreCoordinator(managedObjectModel: Self.model)
        var description = PersistentStoreDescription(
            path: type == .inMemory ? nil : folder.path("covers"), type: type)
        description.sqliteOptions.externalDataThreshold = 1_000
        try coordinator.addPersistentStore(description)
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        for rank in 1...2 {
            let cover = try context.insertObject(entityName: "Cover")
            cover["rank"] = Int64(rank)
            cover["small"] = rank == 1 ? Self.bytes : nil
            try context.save()
        }
        return context
    }

    nonisolated static let kinds: [StoreType] = [.sqlite, .xml, .binary, .inMemory]

    @Test(arguments: kinds)
    func theyCompareByTheirBytes(_ kind: StoreType) throws {
        let context = try covers(kind)
        for (format, expected) in [
            ("small == %@", [1]), ("small != %@", [2]), ("small IN {%@}", [1]),
            ("small BETWEEN {%@, %@}", [1]), ("TERNARY(rank == 2, %@, small) == small", [1]),
        ] {
            let predicate = try QueryPredicate(
                format: format,
                arguments: Array(repeating: value, count: format.split(separator: "%").count - 1))
            let request = FetchSpecification("Cover", predicate: predicate)
            let found = try context.fetch(FetchRequest<ManagedObject>(request)).map {
                $0["rank", as: Int.self]
            }
            #expect(found == expected, "\(format)")
            let all = try context.fetch(FetchRequest("Cover"))
            let evaluated = try all.filter { try predicate.evaluate(with: $0) }.map {
                $0["rank", as: Int.self]
            }
            #expect(evaluated == found, "\(format)")
        }
    }

    @Test(arguments: kinds)
    func oneThatCannotBeReadIsAnErrorOfTheFetch(_ kind: StoreType) throws {
        let context = try covers(kind)
        try FileManager.default.removeItem(atPath: file)
        for format in [
            "small == %@", "small != %@", "small IN {%@}", "small == TERNARY(rank == 1, %@, small)",
            "NOT small == %@", "small < %@",
        ] {
            let predicate = try QueryPredicate(format: format, value)
            let request = FetchSpecification("Cover", predicate: predicate)
            try expectUnreadable("\(format)") {
                try context.fetch(FetchRequest<ManagedObject>(request))
            }
            try expectUnreadable("\(format)") {
                try context.count(for: FetchRequest<ManagedObject>(request))
            }
            let all = try context.fetch(FetchRequest("Cover"))
            try expectUnreadable("\(format)") { try predicate.evaluate(with: all[0]) }
            try expectUnreadable("\(format)") {
                try context.execute(BatchDeleteRequest(fetchRequest: request))
            }
        }
        #expect(try context.count(for: FetchRequest("Cover")) == 2)
    }

    @Test(arguments: kinds)
    func oneThatCannotBeReadIsAnErrorOfTheBatchUpdate(_ kind: StoreType) throws {
        let context = try covers(kind)
        try FileManager.default.removeItem(atPath: file)
        let everywhere = try QueryExpression(format: "TERNARY(rank > 0, %@, small)", value)
        for (key, expression) in [
            ("small", everywhere), ("small", .constant(value)), ("image", .constant(value)),
        ] {
            try expectUnreadable("\(key) = \(expression)") {
                try context.execute(
                    BatchUpdateRequest(
                        entityName: "Cover", propertiesToUpdate: [key: expression]))
            }
        }
        context.reset()
        let small = try context.fetch(FetchRequest("Cover")).map { $0["small", as: Data.self] }
        #expect(small == [Self.bytes, nil])
    }

    /// Values in files of the objects tested are not compared, and are not read to see whether they are there.
    @Test(arguments: kinds)
    func thoseOfTheObjectsTestedAreRefused(_ kind: StoreType) throws {
        let context = try covers(kind)
        let first = try context.fetch(FetchRequest("Cover"))[0]
        first["image"] = Self.bytes
        try context.save()
        for format in [
            "image == small", "small IN {image}", "small BETWEEN {image, image}",
            "CAST(image, 'NSData') == small", "CAST(image, 'NSString') == 'a'",
            "TERNARY(rank == 1, image, small) == small",
        ] {
            let predicate = try QueryPredicate(format: format)
            let fetched = #expect(throws: QuireError.self, "\(format)") {
                try context.fetch(FetchRequest("Cover", predicate: predicate))
            }
            let evaluated = #expect(throws: QuireError.self, "\(format)") {
                try predicate.evaluate(with: first)
            }
            #expect(fetched?.code == .unsupported, "\(format)")
            #expect(evaluated?.message == fetched?.message, "\(format)")
        }
    }

    /// Expects an error that names the object and the file.
    private func expectUnreadable<Result>(
        _ comment: Comment, _ body: () throws -> Result
    ) throws {
        let error = #expect(throws: QuireError.self, comment) { _ = try body() }
        let message = try #require(error).message
        #expect(error?.code == .invalidFormat, comment)
        #expect(message.contains(file), "\(message)")
        #expect(error?.subject.object == owner, "\(message)")
        #expect(error?.subject.property == "image", "\(message)")
    }
}
