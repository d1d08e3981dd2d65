import Foundation
import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct ObjectIDCodingTests {
    private func savedID(_ stack: TestStack) throws -> ManagedObjectID {
        let context = stack.mainContext()
        let author = Author(context: context)
        author.name = "Jane Austen"
        try context.save()
        return author.objectID
    }

    @Test func identifierIsEncodedAsItsURIAndReadByACoordinator() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let id = try savedID(stack)
        let data = try JSONEncoder().encode([id])
        #expect(try JSONDecoder().decode([String].self, from: data) == [id.uriRepresentation])
        let decoder = JSONDecoder()
        decoder.userInfo[.persistentStoreCoordinator] = stack.coordinator
        #expect(try decoder.decode([ManagedObjectID].self, from: data) == [id])
    }

    @Test func identifierOfAnotherStoreIsNotFound() throws {
        let model = try #require(TypedObjectTests.model)
        let data = try JSONEncoder().encode([savedID(TestStack(model))])
        let other = try TestStack(model)
        let decoder = JSONDecoder()
        decoder.userInfo[.persistentStoreCoordinator] = other.coordinator
        #expect {
            try decoder.decode([ManagedObjectID].self, from: data)
        } throws: {
            ($0 as? QuireError)?.code == .notFound
        }
    }

    @Test func temporaryIdentifierAndDecoderWithoutCoordinatorAreErrors() throws {
        let stack = try TestStack(try #require(TypedObjectTests.model))
        let context = stack.mainContext()
        let temporary = Author(context: context).objectID
        #expect {
            try JSONEncoder().encode([temporary])
        } throws: {
            ($0 as? QuireError)?.code == .invalidState
        }
        #expect {
            try JSONDecoder().decode([ManagedObjectID].self, from: Data(#"["Author/p1"]"#.utf8))
        } throws: {
            ($0 as? QuireError)?.code == .invalidState
        }
    }
}
