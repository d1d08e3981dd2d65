import Foundation
import Quire
import QuireDocuments
import Testing

/// The code of the article “Protection”.
@MainActor @Suite struct ProtectionTests {
    @Test func aLockedDomainKeepsItsStoresClosed() async throws {
        try await withProgramFolder { folder in
            let model = ManagedObjectModel { Entity("Entry") { Attribute("text", .string) } }
            // snippet: protection-1
            let keyFile = folder.appendingPathComponent("me.key").path
            try ProtectionDomain.makeKeyFile(at: keyFile)
            let domain = try ProtectionDomain.setUp(
                at: folder.appendingPathComponent("me.keybag").path, keyFile: keyFile,
                label: "laptop")
            let recoveryKey = try domain.addRecoveryKey()
            // end
            // snippet: protection-2
            var description = PersistentStoreDescription(
                url: folder.appendingPathComponent("Diary.sqlite"))
            description.fileProtection = .complete
            description.protectionDomain = domain
            let container = try PersistentContainer(
                managedObjectModel: model, persistentStoreDescriptions: [description])
            let context = container.viewContext
            let entry = try context.insertObject(entityName: "Entry")
            entry["text"] = "Rain all day."
            try context.save()
            // end
            // snippet: protection-3
            await domain.lock(after: .zero)
            do {
                print(try context.count(for: FetchRequest("Entry")))
            } catch let error as QuireError where error.code == .protectedDataUnavailable {
                print("Unlock the diary first.")
            }
            try await domain.unlock(keyFile: keyFile)
            let count = try context.count(for: FetchRequest("Entry"))
            // end
            #expect(count == 1)
            await domain.lock(after: .zero)
            let error = #expect(throws: QuireError.self) {
                try context.count(for: FetchRequest("Entry"))
            }
            #expect(error?.code == .protectedDataUnavailable)
            try await domain.unlock(recoveryKey: recoveryKey)
            #expect(try context.count(for: FetchRequest("Entry")) == 1)
            try container.close()
            let bytes = try Data(contentsOf: folder.appendingPathComponent("Diary.sqlite"))
            #expect(bytes.range(of: Data("Rain all day.".utf8)) == nil)

            let document = ManagedDocument(
                fileURL: folder.appendingPathComponent("Letters.quire"))
            try await document.create(model: model)
            let insertion = try document.managedObjectContext.insertObject(entityName: "Entry")
            insertion["text"] = "Dear Cassandra"
            try await document.close()
            // snippet: protection-4
            try DocumentPackage.setFileProtection(
                .complete, ofDocumentAt: document.path, domain: domain)
            print(try DocumentPackage.fileProtection(at: document.path).rawValue)
            // end
            #expect(try DocumentPackage.fileProtection(at: document.path) == .complete)
            try await document.open()
            #expect(
                try document.managedObjectContext.count(for: FetchRequest("Entry")) == 1)
            try await document.close()
        }
    }
}
