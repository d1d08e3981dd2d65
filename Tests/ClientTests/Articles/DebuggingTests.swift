import Quire
import Testing

/// The code of the article “Debugging”.
@MainActor @Suite struct DebuggingTests {
    @Test func aContextHasAName() throws {
        let container = try PersistentContainer(
            managedObjectModel: ManagedObjectModel {
                Entity("Book") { Attribute("title", .string) }
            },
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
        // snippet: debugging-1
        let background = container.newBackgroundContext()
        background.performAndWait { $0.name = "import" }
        // end
        #expect(background.performAndWait { $0.name } == "import")
    }
}
