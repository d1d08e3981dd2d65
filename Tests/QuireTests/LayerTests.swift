import Foundation
import Testing

/// The two rules of the source tree: C stays where its handles are owned, and folders do not name what stands
/// below them.
@Suite struct LayerTests {
    private static let sources = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Sources")

    private static func swiftFiles() throws -> [(path: String, text: String)] {
        let enumerator = try #require(FileManager.default.enumerator(atPath: sources.path))
        return try enumerator.compactMap { $0 as? String }.filter { $0.hasSuffix(".swift") }.map {
            ($0, try String(contentsOf: sources.appendingPathComponent($0), encoding: .utf8))
        }
    }

    @Test(arguments: [
        ("CSQLite", ["Quire/Stores/SQLite/"]),
        (
            "CLibXML2",
            [
                "Quire/ModelFiles/ModelXMLReader", "Quire/ModelFiles/ModelXMLWriter",
                "Quire/Stores/XML/",
            ]
        ),
        ("CZLib", ["Quire/ModelFiles/RawDeflate"]),
        ("CArchive", ["QuireDocuments/Archive/"]),
        (
            "CLinux",
            [
                "QuireSystem/", "QuireProtection/AuthenticatedEncryption",
                "QuireProtection/UserKeyring",
                "Quire/Stores/SQLite/Sealing/PageCipher",
                "QuireDocuments/Coordination/FileEvents",
                "QuireDocuments/Coordination/LocalSocket",
            ]
        ),
    ])
    func cIsContained(module: String, allowed: [String]) throws {
        for (path, text) in try Self.swiftFiles() where text.contains("import \(module)") {
            #expect(
                allowed.contains { path.hasPrefix($0) }, "\(path) imports \(module)")
        }
    }

    /// The thread sanitizer does not see what `Mutex` orders.
    @Test func locksAreThoseOfQuireSystem() throws {
        for (path, text) in try Self.swiftFiles() where path != "QuireSystem/Lock.swift" {
            #expect(!text.contains(/\bMutex[<(]/), "\(path) uses Mutex; take Lock.")
        }
    }

    /// Folders in dependency order, with types that only they and those below may name.
    private static let order: [(folder: String, types: [String])] = [
        ("Support/", []),
        ("Model/", ["ModelLayout", "EntityLayout"]),
        ("Query/", ["QueryPredicate", "FetchRequest"]),
        ("ModelFiles/", ["ModelXMLReader", "ModelXMLWriter", "CompiledModelDecoder"]),
        ("StoreAPI/", ["RowSet", "ChangeSet", "PersistentStore"]),
        ("Stores/", ["SQLSchema", "SQLiteStore"]),
        ("Migration/", ["MappingModel", "MigrationManager"]),
        ("Rescue/", ["StoreRecovery", "StoreRepair"]),
        ("Coordinator/", ["PersistentStoreCoordinator", "ObjectSource"]),
        ("Graph/", ["ManagedObjectContext", "ManagedObject", "ConfinedContext", "MergePolicy"]),
        ("Results/", ["FetchedResultsController", "FetchedResultsSnapshot"]),
        ("Container/", ["PersistentContainer"]),
    ]

    @Test func foldersNameOnlyWhatStandsAbove() throws {
        for (path, text) in try Self.swiftFiles()
        where path.hasPrefix("Quire/") && path != "Quire/Exports.swift" {
            let inside = path.dropFirst("Quire/".count)
            let place = try #require(
                Self.order.firstIndex { inside.hasPrefix($0.folder) },
                "\(path) is in no known folder")
            // Comments may name anything.
            let code = text.split(separator: "\n").filter {
                !$0.drop(while: { $0 == " " }).hasPrefix("//")
            }.joined(separator: "\n")
            let words = Set(
                code.split(whereSeparator: { !($0.isLetter || $0.isNumber || $0 == "_") }).map(
                    String.init))
            for (_, types) in Self.order[(place + 1)...] {
                for type in types { #expect(!words.contains(type), "\(path) names \(type)") }
            }
        }
    }
}
